//! Activations of recurrent operators, with the alpha and beta that some of them have.
use ge_plugin_api::{Error, Result};

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// `max(x, 0)`.
    Relu,
    /// `alpha x + beta`.
    Affine(f32, f32),
    /// `alpha x` below zero, else `x`.
    LeakyRelu(f32),
    /// `x` above alpha, else zero.
    ThresholdedRelu(f32),
    /// `alpha tanh(beta x)`.
    ScaledTanh(f32, f32),
    /// `alpha x + beta`, limited to the range from zero to one.
    HardSigmoid(f32, f32),
    /// `alpha (e^x - 1)` below zero, else `x`.
    Elu(f32),
    /// `x / (1 + |x|)`.
    Softsign,
    /// `ln(1 + e^x)`.
    Softplus,
}

impl Activation {
    /// The names; case does not matter.
    pub const NAMES: [&str; 11] = [
        "Sigmoid",
        "Tanh",
        "Relu",
        "Affine",
        "LeakyRelu",
        "ThresholdedRelu",
        "ScaledTanh",
        "HardSigmoid",
        "Elu",
        "Softsign",
        "Softplus",
    ];

    /// The activation with this name. It takes its alpha and beta, if it has them, from the
    /// iterators; if these are exhausted, the standard's defaults are used.
    ///
    /// # Errors
    /// `unsupported` if there is no such activation.
    pub fn of(
        name: &str,
        alphas: &mut impl Iterator<Item = f32>,
        betas: &mut impl Iterator<Item = f32>,
    ) -> Result<Activation> {
        let mut a = |usual: f32| alphas.next().unwrap_or(usual);
        let mut b = |usual: f32| betas.next().unwrap_or(usual);
        Ok(match name.to_ascii_lowercase().as_str() {
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "relu" => Activation::Relu,
            "affine" => Activation::Affine(a(1.0), b(0.0)),
            "leakyrelu" => Activation::LeakyRelu(a(0.01)),
            "thresholdedrelu" => Activation::ThresholdedRelu(a(1.0)),
            "scaledtanh" => Activation::ScaledTanh(a(1.0), b(1.0)),
            "hardsigmoid" => Activation::HardSigmoid(a(0.2), b(0.5)),
            "elu" => Activation::Elu(a(1.0)),
            "softsign" => Activation::Softsign,
            "softplus" => Activation::Softplus,
            _ => return Err(Error::unsupported(format!("activation {name} is not computed"))),
        })
    }

    /// Applies the function to a number.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Tanh => x.tanh(),
            Activation::Relu => x.max(0.0),
            Activation::Affine(a, b) => a * x + b,
            Activation::LeakyRelu(a) => {
                if x < 0.0 {
                    a * x
                } else {
                    x
                }
            }
            Activation::ThresholdedRelu(a) => {
                if x > a {
                    x
                } else {
                    0.0
                }
            }
            Activation::ScaledTanh(a, b) => a * (b * x).tanh(),
            Activation::HardSigmoid(a, b) => (a * x + b).clamp(0.0, 1.0),
            Activation::Elu(a) => {
                if x < 0.0 {
                    a * x.exp_m1()
                } else {
                    x
                }
            }
            Activation::Softsign => x / (1.0 + x.abs()),
            // This form avoids the overflow of the exponential for large numbers.
            Activation::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphas_go_to_those_that_have_one_and_the_rest_is_as_usual() {
        let (mut a, mut b) = ([0.5f32, 3.0].into_iter(), [0.25f32].into_iter());
        let names = ["tanh", "HardSigmoid", "Softsign", "leakyRelu", "ELU", "affine"];
        let all: Vec<Activation> = names.iter().map(|n| Activation::of(n, &mut a, &mut b).unwrap()).collect();
        assert_eq!(all[1], Activation::HardSigmoid(0.5, 0.25));
        assert_eq!(all[3..], [Activation::LeakyRelu(3.0), Activation::Elu(1.0), Activation::Affine(1.0, 0.0)]);
        assert!(Activation::of("Sine", &mut a, &mut b).is_err());
        for name in Activation::NAMES {
            let one = Activation::of(name, &mut a, &mut b).unwrap();
            assert!([-90.0f32, -1.0, 0.0, 1.0, 90.0].iter().all(|x| one.apply(*x).is_finite()), "{name}");
        }
        assert_eq!(Activation::Softplus.apply(200.0), 200.0);
        assert_eq!(Activation::ThresholdedRelu(1.0).apply(1.0), 0.0);
    }
}
