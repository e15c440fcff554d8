//! Transforms of the final scores (`post_transform`).
use ge_plugin_api::frontend::ForeignNode;
use ge_plugin_api::{Error, Result};

/// A transform of the scores of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// No change.
    None,
    /// Softmax: positive scores that add up to one.
    Softmax,
    /// The logistic function of each score.
    Logistic,
    /// Softmax in which scores near zero stay near zero.
    SoftmaxZero,
    /// The quantile function of the normal distribution.
    Probit,
}

impl Post {
    /// The transform with this name in the standard.
    pub fn named(name: &str) -> Option<Post> {
        Some(match name {
            "" | "NONE" => Post::None,
            "SOFTMAX" => Post::Softmax,
            "LOGISTIC" => Post::Logistic,
            "SOFTMAX_ZERO" => Post::SoftmaxZero,
            "PROBIT" => Post::Probit,
            _ => return None,
        })
    }

    /// Reads the transform of a foreign node and returns its name, for the kernel's attribute.
    ///
    /// # Errors
    /// Fails if the name is not in the standard.
    pub fn of(n: &ForeignNode) -> Result<String> {
        let name = match n.attrs.int("post_transform") {
            // `TreeEnsemble` uses numbers.
            Some(k) => usize::try_from(k).ok().and_then(|k| Post::NAMES.get(k)).copied().unwrap_or("?"),
            None => n.str_or("post_transform", "NONE"),
        };
        match Post::named(name) {
            Some(_) => Ok(name.to_owned()),
            None => Err(n.refuse(format!("attribute `post_transform` is none of {}", Post::NAMES.join(", ")))),
        }
    }

    /// Names in the order of their numbers in `TreeEnsemble`.
    const NAMES: [&'static str; 5] = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];

    /// Reads the transform from a kernel's attribute.
    ///
    /// # Errors
    /// Fails if the name is unknown.
    pub fn read(name: Option<&str>) -> Result<Post> {
        let name = name.unwrap_or("NONE");
        Post::named(name).ok_or_else(|| Error::failed(format!("attribute `post`: found `{name}`")))
    }

    /// Transforms the scores of one row.
    pub fn apply(self, scores: &mut [f64]) {
        match self {
            Post::None => {}
            Post::Logistic => scores.iter_mut().for_each(|s| *s = logistic(*s)),
            Post::Probit => scores.iter_mut().for_each(|s| *s = probit(*s)),
            Post::Softmax | Post::SoftmaxZero => {
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                // A score near zero is multiplied by exp(-most) instead of becoming exp(-most).
                let zero = |s: f64| self == Post::SoftmaxZero && s.abs() <= 1e-7;
                scores.iter_mut().for_each(|s| *s = if zero(*s) { *s * (-most).exp() } else { (*s - most).exp() });
                let sum: f64 = scores.iter().sum();
                scores.iter_mut().for_each(|s| *s /= sum);
            }
        }
    }
}

/// 1 / (1 + exp(-x)) without overflow.
pub fn logistic(x: f64) -> f64 {
    let v = 1.0 / (1.0 + (-x.abs()).exp());
    if x < 0.0 { 1.0 - v } else { v }
}

/// The quantile function, with Winitzki's approximation of the inverse error function, as in other
/// runtimes.
fn probit(p: f64) -> f64 {
    let x = 2.0 * p - 1.0;
    let log = ((1.0 - x) * (1.0 + x)).ln();
    let v = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * log;
    let inverse = (-v + (v * v - log / 0.147).sqrt()).sqrt();
    std::f64::consts::SQRT_2 * if x < 0.0 { -inverse } else { inverse }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_are_those_of_the_standard() {
        let of = |p: Post, v: &[f64]| {
            let mut v = v.to_vec();
            p.apply(&mut v);
            v
        };
        assert_eq!(of(Post::Softmax, &[0.0, 0.0]), [0.5, 0.5]);
        assert_eq!(of(Post::SoftmaxZero, &[0.0, 3.0]), [0.0, 1.0]);
        assert_eq!(of(Post::Logistic, &[0.0, -1000.0, 1000.0]), [0.5, 0.0, 1.0]);
        assert!(of(Post::Probit, &[0.5])[0].abs() < 1e-12);
        assert!((of(Post::Probit, &[0.975])[0] - 1.96).abs() < 1e-2);
    }
}
