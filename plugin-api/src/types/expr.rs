//! Sizes as expressions: sums and products of symbols with integer coefficients, rounded-down
//! quotients and maxima. A symbolic dimension is an expression if its name reads as one (`2*batch`,
//! `seq+1`, `(n+1)/2`); equal expressions have equal names.
use crate::types::Dim;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most terms, and most bytes of the name, that [`Expr::dim`] accepts; a longer expression becomes
/// an unknown dimension.
const TERMS: usize = 8;
const LETTERS: usize = 96;
/// Deepest nesting that the parser accepts.
const DEPTH: u32 = 16;

/// One factor of a product.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Atom {
    /// A named size, zero or more.
    Symbol(String),
    /// The expression divided by the number, rounded down.
    Quotient(Box<Expr>, i64),
    /// The larger of the two.
    Max(Box<Expr>, Box<Expr>),
}

/// A sum of products in canonical form: each product with its coefficient.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expr {
    terms: BTreeMap<Vec<Atom>, i64>,
}

impl From<i64> for Expr {
    fn from(v: i64) -> Expr {
        let mut e = Expr::default();
        e.put(Vec::new(), v);
        e
    }
}

impl Expr {
    /// The expression of a dimension; `None` if the dimension is unknown or its name is not an
    /// expression.
    pub fn of(d: Dim) -> Option<Expr> {
        match (d.size(), d.symbol_name()) {
            (Some(n), _) => i64::try_from(n).ok().map(Expr::from),
            (None, Some(name)) => Expr::parse(name),
            (None, None) => None,
        }
    }
    /// The expression as a dimension; unknown if it may be negative or is too long for a name.
    pub fn dim(&self) -> Dim {
        if let Some(v) = self.constant() {
            return u64::try_from(v).map_or(Dim::UNKNOWN, Dim::known);
        }
        if self.bounds().0.is_none_or(|low| low < 0) {
            return Dim::UNKNOWN;
        }
        let name = self.to_string();
        if self.terms.len() > TERMS || name.len() > LETTERS { Dim::UNKNOWN } else { Dim::symbol(&name) }
    }
    /// Parses an expression; `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Expr> {
        let mut p = Parser { rest: text.trim(), depth: 0 };
        let e = p.sum()?;
        p.rest.is_empty().then_some(e)
    }
    /// The value, if it does not depend on any symbol.
    pub fn constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }
    /// Whether it is one symbol and nothing else.
    pub fn is_symbol(&self) -> bool {
        let one = |(atoms, c): (&Vec<Atom>, &i64)| *c == 1 && matches!(atoms.as_slice(), [Atom::Symbol(_)]);
        self.terms.len() == 1 && self.terms.iter().all(one)
    }
    /// The value for the sizes that `of` gives to symbols; `None` if a symbol has no size, or on
    /// overflow.
    pub fn value(&self, of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        self.terms.iter().try_fold(0i64, |sum, (atoms, c)| {
            let product = atoms.iter().try_fold(*c, |p, a| p.checked_mul(a.value(of)?))?;
            sum.checked_add(product)
        })
    }
    /// The symbols in it.
    pub fn symbols(&self) -> BTreeSet<&str> {
        let mut all = BTreeSet::new();
        self.terms.keys().flatten().for_each(|a| a.symbols(&mut all));
        all
    }
    /// The expression with other expressions in place of the symbols for which `of` gives one;
    /// `None` on overflow or if it has too many terms.
    pub fn substituted(&self, of: &dyn Fn(&str) -> Option<Expr>) -> Option<Expr> {
        self.terms.iter().try_fold(Expr::default(), |sum, (atoms, c)| {
            let product = atoms.iter().try_fold(Expr::from(*c), |p, a| p.mul(&a.substituted(of)?))?;
            sum.add(&product)
        })
    }
    /// A dimension with others, as `of` gives them, in place of the symbols in its expression. A
    /// dimension whose name is no expression is replaced as a whole.
    pub fn replaced(d: Dim, of: &dyn Fn(&str) -> Option<Dim>) -> Dim {
        let Some(name) = d.symbol_name() else { return d };
        of(name).unwrap_or_else(|| match Expr::parse(name) {
            Some(e) if e.symbols().into_iter().any(|s| of(s).is_some()) => {
                e.substituted(&|s| Expr::of(of(s)?)).map_or(Dim::UNKNOWN, |e| e.dim())
            }
            _ => d,
        })
    }
    /// The least and the greatest possible value, `None` where no bound is known. Symbols are zero
    /// or more.
    pub fn bounds(&self) -> (Option<i64>, Option<i64>) {
        self.bounds_within(None)
    }
    /// The bounds if no symbol is greater than `most`.
    pub fn bounds_up_to(&self, most: i64) -> (Option<i64>, Option<i64>) {
        self.bounds_within(Some(most))
    }
    fn bounds_within(&self, most: Option<i64>) -> (Option<i64>, Option<i64>) {
        let (mut low, mut high) = (Some(0i64), Some(0i64));
        for (atoms, c) in &self.terms {
            let (mut l, mut h) = (Some(1i64), Some(1i64));
            for a in atoms {
                let (al, ah) = a.bounds_within(most);
                // A product with a factor that may be negative gets no bounds.
                l = l.zip(al.filter(|v| *v >= 0)).and_then(|(x, y)| x.checked_mul(y));
                h = h.zip(ah).and_then(|(x, y)| x.checked_mul(y)).filter(|_| l.is_some());
            }
            let (from, to) = if *c >= 0 { (l, h) } else { (h, l) };
            low = low.zip(from).and_then(|(s, v)| s.checked_add(v.checked_mul(*c)?));
            high = high.zip(to).and_then(|(s, v)| s.checked_add(v.checked_mul(*c)?));
        }
        (low, high)
    }
    /// The sum; `None` on overflow or if it has too many terms.
    pub fn add(&self, other: &Expr) -> Option<Expr> {
        self.sum(other, 1)
    }
    /// The difference; `None` on overflow or if it has too many terms.
    pub fn sub(&self, other: &Expr) -> Option<Expr> {
        self.sum(other, -1)
    }
    /// The product; `None` on overflow or if it has too many terms.
    pub fn mul(&self, other: &Expr) -> Option<Expr> {
        let mut out = Expr::default();
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let mut atoms: Vec<Atom> = a.iter().chain(b).cloned().collect();
                atoms.sort();
                let c = out.terms.get(&atoms).copied().unwrap_or(0).checked_add(x.checked_mul(*y)?)?;
                out.put(atoms, c);
            }
        }
        out.kept()
    }
    /// The quotient by a positive number, rounded down; `None` if `by` is not positive.
    pub fn div_floor(&self, by: i64) -> Option<Expr> {
        if by < 1 {
            return None;
        }
        let (mut whole, mut rest) = (Expr::default(), Expr::default());
        for (atoms, c) in &self.terms {
            // Coefficients that `by` divides, and the whole part of the constant, move out of the
            // floor.
            let (q, r) = if atoms.is_empty() || c % by == 0 { (c.div_euclid(by), c.rem_euclid(by)) } else { (0, *c) };
            whole.put(atoms.clone(), q);
            rest.put(atoms.clone(), r);
        }
        if rest.constant().is_some() {
            return whole.kept();
        }
        let common = rest.terms.values().fold(by, |a, b| gcd(a, *b));
        rest.terms.values_mut().for_each(|c| *c /= common);
        let out = match by / common {
            1 => rest,
            by => Expr::atom(Atom::Quotient(Box::new(rest), by)),
        };
        whole.add(&out)
    }
    /// The quotient by a single product with a positive coefficient; `None` if `by` is anything
    /// else or a term lacks one of its factors.
    pub fn div_exact(&self, by: &Expr) -> Option<Expr> {
        let (divisor, c) = by.terms.iter().next().filter(|_| by.terms.len() == 1)?;
        let mut out = Expr::default();
        for (atoms, x) in &self.terms {
            let mut left = atoms.clone();
            for d in divisor {
                left.remove(left.iter().position(|a| a == d)?);
            }
            out.put(left, *x);
        }
        match *c {
            c if c > 0 => out.div_floor(c),
            _ => None,
        }
    }
    /// The larger of the two: a `max` unless one is known to be at least the other.
    pub fn greater(&self, other: &Expr) -> Option<Expr> {
        let (low, high) = self.sub(other)?.bounds();
        if low.is_some_and(|v| v >= 0) {
            return Some(self.clone());
        }
        if high.is_some_and(|v| v <= 0) {
            return Some(other.clone());
        }
        let (a, b) = if self >= other { (self, other) } else { (other, self) };
        Expr::atom(Atom::Max(Box::new(a.clone()), Box::new(b.clone()))).kept()
    }

    /// The smaller of the two. If neither is known to be at most the other, it is `a-max(a-b,0)`,
    /// where `a` is the one that has an upper bound.
    pub fn lesser(&self, other: &Expr) -> Option<Expr> {
        let (low, high) = self.sub(other)?.bounds();
        if low.is_some_and(|v| v >= 0) {
            return Some(other.clone());
        }
        if high.is_some_and(|v| v <= 0) {
            return Some(self.clone());
        }
        let rank = |e: &Expr| (e.bounds().1.is_some(), e.clone());
        let (a, b) = if rank(self) >= rank(other) { (self, other) } else { (other, self) };
        a.sub(&a.sub(b)?.greater(&Expr::from(0))?)
    }
    /// Whether this expression is the smaller of `whole` and a constant.
    pub fn is_lesser_of(&self, whole: &Expr) -> bool {
        let most = self.bounds().1.filter(|_| self.constant().is_none());
        most.and_then(|most| whole.lesser(&Expr::from(most))).is_some_and(|e| e == *self)
    }

    fn atom(a: Atom) -> Expr {
        Expr { terms: BTreeMap::from([(vec![a], 1)]) }
    }
    fn put(&mut self, atoms: Vec<Atom>, c: i64) {
        if c == 0 {
            self.terms.remove(&atoms);
        } else {
            self.terms.insert(atoms, c);
        }
    }
    fn sum(&self, other: &Expr, sign: i64) -> Option<Expr> {
        let mut out = self.clone();
        for (atoms, c) in &other.terms {
            let s = out.terms.get(atoms).copied().unwrap_or(0).checked_add(c.checked_mul(sign)?)?;
            out.put(atoms.clone(), s);
        }
        out.kept()
    }
    fn kept(self) -> Option<Expr> {
        (self.terms.len() <= 2 * TERMS).then_some(self)
    }
}

impl Atom {
    fn value(&self, of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        match self {
            Atom::Symbol(s) => of(s),
            Atom::Quotient(e, by) => Some(e.value(of)?.div_euclid(*by)),
            Atom::Max(a, b) => Some(a.value(of)?.max(b.value(of)?)),
        }
    }
    fn symbols<'a>(&'a self, all: &mut BTreeSet<&'a str>) {
        match self {
            Atom::Symbol(s) => drop(all.insert(s)),
            Atom::Quotient(e, _) => all.extend(e.symbols()),
            Atom::Max(a, b) => all.extend(a.symbols().union(&b.symbols())),
        }
    }
    fn substituted(&self, of: &dyn Fn(&str) -> Option<Expr>) -> Option<Expr> {
        match self {
            Atom::Symbol(s) => Some(of(s).unwrap_or_else(|| Expr::atom(self.clone()))),
            Atom::Quotient(e, by) => e.substituted(of)?.div_floor(*by),
            Atom::Max(a, b) => a.substituted(of)?.greater(&b.substituted(of)?),
        }
    }
    fn bounds_within(&self, most: Option<i64>) -> (Option<i64>, Option<i64>) {
        match self {
            Atom::Symbol(_) => (Some(0), most),
            Atom::Quotient(e, by) => {
                let (l, h) = e.bounds_within(most);
                (l.map(|v| v.div_euclid(*by)), h.map(|v| v.div_euclid(*by)))
            }
            Atom::Max(a, b) => {
                let ((al, ah), (bl, bh)) = (a.bounds_within(most), b.bounds_within(most));
                (al.max(bl), ah.zip(bh).map(|(x, y)| x.max(y)))
            }
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1).max(1)
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Symbol(s) => f.write_str(s),
            // A single product needs no parentheses of its own, as it is divided as a whole.
            Atom::Quotient(e, by) if e.terms.len() == 1 && e.terms.values().all(|c| *c > 0) => write!(f, "({e}/{by})"),
            Atom::Quotient(e, by) => write!(f, "(({e})/{by})"),
            Atom::Max(a, b) => write!(f, "max({a},{b})"),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // The constant term is printed last.
        let products = self.terms.iter().filter(|(a, _)| !a.is_empty());
        let number = self.terms.iter().filter(|(a, _)| a.is_empty());
        for (i, (atoms, c)) in products.chain(number).enumerate() {
            if i > 0 && *c > 0 {
                f.write_str("+")?;
            }
            match (*c, atoms.is_empty()) {
                (1, false) => {}
                (-1, false) => f.write_str("-")?,
                (c, true) => write!(f, "{c}")?,
                (c, false) => write!(f, "{c}*")?,
            }
            for (k, a) in atoms.iter().enumerate() {
                if k > 0 {
                    f.write_str("*")?;
                }
                write!(f, "{a}")?;
            }
        }
        Ok(())
    }
}

struct Parser<'t> {
    rest: &'t str,
    depth: u32,
}

impl Parser<'_> {
    fn take(&mut self, c: char) -> bool {
        let found = self.rest.strip_prefix(c);
        if let Some(r) = found {
            self.rest = r.trim_start();
        }
        found.is_some()
    }
    fn sum(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let mut out = if self.take('-') { Expr::default().sub(&self.product()?)? } else { self.product()? };
        loop {
            if self.take('+') {
                out = out.add(&self.product()?)?;
            } else if self.take('-') {
                out = out.sub(&self.product()?)?;
            } else {
                self.depth -= 1;
                return Some(out);
            }
        }
    }
    fn product(&mut self) -> Option<Expr> {
        let mut out = self.factor()?;
        loop {
            if self.take('*') {
                out = out.mul(&self.factor()?)?;
            } else if self.rest.starts_with("//") {
                self.rest = self.rest[2..].trim_start();
                out = out.div_floor(self.factor()?.constant()?)?;
            } else if self.take('/') {
                out = out.div_floor(self.factor()?.constant()?)?;
            } else {
                return Some(out);
            }
        }
    }
    fn factor(&mut self) -> Option<Expr> {
        if self.take('(') {
            let e = self.sum()?;
            return self.take(')').then_some(e);
        }
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '#')));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let first = word.chars().next()?;
        self.rest = rest.trim_start();
        if first.is_ascii_digit() {
            return word.parse::<i64>().ok().map(Expr::from);
        }
        if matches!(word, "max" | "Max") && self.take('(') {
            let a = self.sum()?;
            let b = if self.take(',') { self.sum()? } else { return None };
            return if self.take(')') { a.greater(&b) } else { None };
        }
        Some(Expr::atom(Atom::Symbol(word.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> String {
        Expr::parse(text).map_or_else(|| "none".into(), |e| e.to_string())
    }

    #[test]
    fn equal_expressions_have_equal_names() {
        for (text, want) in [
            ("batch*2", "2*batch"),
            ("seq + 1", "seq+1"),
            ("(n*4)/2", "2*n"),
            ("n*6/4", "(3*n/2)"),
            ("(n+1)/2", "((n+1)/2)"),
            ("(2*n+3)/2", "n+1"),
            ("(4*n+m)/4", "n+(m/4)"),
            ("n-n", "0"),
            ("m*n-n*m+7", "7"),
            ("-n+3", "-n+3"),
            ("max(n, n+1)", "n+1"),
            ("max(n-1,0)", "max(n-1,0)"),
            ("max(0,n-1)", "max(n-1,0)"),
            ("a//2", "(a/2)"),
            ("(3-n)/2", "((-n+1)/2)+1"),
        ] {
            assert_eq!(name(text), want, "{text}");
            assert_eq!(name(want), want, "{text}: what is printed reads back");
        }
        for text in ["", "n+", "2 n", "n/m", "n/0", "(n", "a b", &"(".repeat(40), "99999999999999999999"] {
            assert_eq!(name(text), "none", "{text}");
        }
    }

    #[test]
    fn dimensions_are_never_negative() {
        let e = |t: &str| Expr::parse(t).expect("an expression");
        assert_eq!(e("n-1").dim(), Dim::UNKNOWN);
        assert_eq!(e("max(n-1,0)").dim(), Dim::symbol("max(n-1,0)"));
        assert_eq!(e("3-5").dim(), Dim::UNKNOWN);
        assert_eq!(e("2*3").dim(), Dim::known(6));
        assert_eq!(Expr::of(Dim::symbol("odd name")), None);
        assert_eq!(e("n+3").bounds(), (Some(3), None));
        assert_eq!(e("3-n").bounds(), (None, Some(3)));
        assert_eq!(e("n+m").value(&|s| (s == "n").then_some(1)), None);
        assert!(e("n").is_symbol() && !e("2*n").is_symbol() && !e("n+1").is_symbol() && !e("7").is_symbol());
        assert_eq!(e("3-n").bounds_up_to(10), (Some(-7), Some(3)));
        assert_eq!(e("(n+1)/2").bounds_up_to(9), (Some(0), Some(5)));
        assert_eq!(e("max(n*m,7)").bounds_up_to(4), (Some(7), Some(16)));
        assert_eq!(e("6*b*n").div_exact(&e("3*b")), Some(e("2*n")));
        assert_eq!(e("6*b").div_exact(&e("n")), None);
    }

    #[test]
    fn symbols_are_replaced_by_expressions() {
        let to = |s: &str| match s {
            "n" => Some(Dim::known(5)),
            "m" => Some(Dim::symbol("k+1")),
            "odd name" => Some(Dim::symbol("o")),
            _ => None,
        };
        for (text, want) in [
            ("n", "5"),
            ("2*n+1", "11"),
            ("n/2", "2"),
            ("2*m", "2*k+2"),
            ("max(n,m)", "max(k+1,5)"),
            ("(m+n)/2*b", "b*((k)/2)+3*b"),
            ("b+1", "b+1"),
            ("odd name", "o"),
            ("other name", "other name"),
        ] {
            let want = Expr::parse(want).map_or_else(|| Dim::symbol(want), |e| e.dim());
            assert_eq!(Expr::replaced(Dim::symbol(text), &to), want, "{text}");
        }
        assert_eq!(Expr::replaced(Dim::symbol("n-7+b"), &to), Dim::UNKNOWN);
        assert_eq!(Expr::replaced(Dim::UNKNOWN, &to), Dim::UNKNOWN);
        let e = Expr::parse("max(2*n/3,m)+b").expect("an expression");
        assert_eq!(e.symbols().into_iter().collect::<Vec<_>>(), ["b", "m", "n"]);
    }

    #[test]
    fn the_lesser_of_a_size_and_a_number_is_a_size() {
        let e = |t: &str| Expr::parse(t).expect("an expression");
        let few = e("n").lesser(&e("512")).expect("an expression");
        assert_eq!((few.to_string().as_str(), few.bounds()), ("-max(-n+512,0)+512", (Some(0), Some(512))));
        assert_eq!((e("512").lesser(&e("n")), few.dim()), (Some(few.clone()), Dim::symbol("-max(-n+512,0)+512")));
        assert_eq!((e("n").lesser(&e("n+1")), e("n+3").lesser(&e("2"))), (Some(e("n")), Some(e("2"))));
        assert!(few.is_lesser_of(&e("n")) && e("2*n+1").lesser(&e("9")).is_some_and(|f| f.is_lesser_of(&e("2*n+1"))));
        assert!(!few.is_lesser_of(&e("m")) && !e("n").is_lesser_of(&e("n")) && !e("512").is_lesser_of(&e("n")));
        assert!(!e("512-n").is_lesser_of(&e("n")) && !e("max(n,512)").is_lesser_of(&e("n")));
    }

    /// Compares expressions with plain arithmetic: both must give the same for any values of the
    /// symbols.
    #[test]
    fn random_expressions_are_what_they_were_made_of() {
        let mut seed = 11u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..500 {
            let (n, m) = (next(9) as i64, next(9) as i64);
            let mut pool: Vec<(Expr, i64)> =
                vec![(Expr::parse("n").expect("n"), n), (Expr::parse("m").expect("m"), m), (Expr::from(3), 3)];
            for _ in 0..6 {
                let (a, b) = (&pool[next(pool.len() as u64) as usize], &pool[next(pool.len() as u64) as usize]);
                let k = next(4) as i64 + 1;
                let made = match next(6) {
                    0 => a.0.add(&b.0).map(|e| (e, a.1 + b.1)),
                    1 => a.0.sub(&b.0).map(|e| (e, a.1 - b.1)),
                    2 => a.0.mul(&b.0).map(|e| (e, a.1 * b.1)),
                    3 => a.0.div_floor(k).map(|e| (e, a.1.div_euclid(k))),
                    4 => a.0.lesser(&b.0).map(|e| (e, a.1.min(b.1))),
                    _ => a.0.greater(&b.0).map(|e| (e, a.1.max(b.1))),
                };
                pool.extend(made);
            }
            for (e, v) in pool {
                let (low, high) = e.bounds();
                let of = |s: &str| Some(if s == "n" { n } else { m });
                assert_eq!(e.value(&of), Some(v), "{e} at n = {n}, m = {m}");
                assert!(low.is_none_or(|l| l <= v) && high.is_none_or(|h| v <= h), "{e} at n = {n}, m = {m} is {v}");
                let text =
                    e.to_string().replace('n', &n.to_string()).replace("max", "MAX").replace('m', &m.to_string());
                let put = Expr::parse(&text.replace("MAX", "max")).and_then(|e| e.constant());
                assert_eq!(put, Some(v), "{e} at n = {n}, m = {m}");
            }
        }
    }
}
