//! `Einsum` of two tensors as one matrix product, where no element has to move: both tensors and
//! the result begin with the same letters, and the summed letters are the last or the last but one
//! group of each. Types as for `MatMulV2` (f32, f16, bf16). The front end's fusion makes products
//! of most equations; what arrives here are tensors whose sizes only a run tells, so that nothing
//! says beforehand whether two sizes are equal.
//!
//! Letters of one group lie side by side, so that their axes count as one. A letter that both
//! tensors have must have the same size in both: sizes of 1 that are repeated go to the AI CPU.
use crate::families::matmul;
use crate::kernel::Kernel;
use crate::sig::{Answer, Sig, Tensor};
use ge_plugin_api::types::AttrMap;

/// The kernel of such an equation.
///
/// # Errors
/// Fails with a reason if types, shapes or the equation are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    matmul::build(&product(sig)?)
}

/// The letters of a term, with the sizes that its tensor gives them.
struct Term<'t> {
    letters: Vec<char>,
    tensor: &'t Tensor,
}

impl<'t> Term<'t> {
    fn of(text: &str, tensor: &'t Tensor) -> Answer<Term<'t>> {
        let letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        let once = letters.iter().enumerate().all(|(k, l)| !letters[..k].contains(l));
        if !once || !letters.iter().all(char::is_ascii_alphabetic) || letters.len() != tensor.rank() {
            return Err(format!("term `{text}` of a tensor with {} axes", tensor.rank()));
        }
        Ok(Term { letters, tensor })
    }

    fn has(&self, letter: &char) -> bool {
        self.letters.contains(letter)
    }

    /// Whether its letters are these groups in order.
    fn is(&self, groups: [&[char]; 3]) -> bool {
        self.letters.iter().eq(groups.into_iter().flatten())
    }

    /// Its sizes if the letters behind the first `batch` form groups of `first` and of the others.
    fn joined(&self, batch: usize, first: usize) -> Tensor {
        let shape = &self.tensor.shape;
        let (lead, rest) = shape.split_at(batch.min(shape.len()));
        let (a, b) = rest.split_at(first.min(rest.len()));
        let shape = lead.iter().copied().chain([a.iter().product(), b.iter().product()]).collect();
        Tensor { shape, ..self.tensor.clone() }
    }

    fn size(&self, letter: char) -> Option<usize> {
        Some(self.tensor.shape[self.letters.iter().position(|l| *l == letter)?])
    }
}

/// The signature of the matrix product that an equation is.
fn product(sig: &Sig) -> Answer<Sig> {
    let equation = sig.attrs.str("equation").ok_or("no equation")?;
    let other = || format!("`{equation}` is not one product of two tensors as they lie");
    let (left, right) = equation.split_once("->").ok_or_else(other)?;
    let (left_a, left_b) = left.split_once(',').ok_or_else(other)?;
    if sig.inputs.len() != 2 || sig.outputs.len() != 1 {
        return Err(other());
    }
    let a = Term::of(left_a, sig.input(0)?)?;
    let (b, y) = (Term::of(left_b, sig.input(1)?)?, Term::of(right, sig.output(0)?)?);
    if [a.tensor, b.tensor, y.tensor].iter().any(|t| t.origin.is_some() || t.count() == 0) {
        return Err("tensors without elements, or in another format".into());
    }
    let of = |t: &Term<'_>, is: &dyn Fn(&char) -> bool| t.letters.iter().copied().filter(is).collect::<Vec<char>>();
    let batch = of(&y, &|l| a.has(l) && b.has(l));
    let rows = of(&y, &|l| a.has(l) && !b.has(l));
    let columns = of(&y, &|l| !a.has(l) && b.has(l));
    let sum = of(&a, &|l| b.has(l) && !y.has(l));
    let equal = batch.iter().chain(&sum).all(|l| a.size(*l) == b.size(*l));
    let (turns_a, turns_b) = (a.is([&batch, &sum, &rows]), b.is([&batch, &columns, &sum]));
    let lies = (turns_a || a.is([&batch, &rows, &sum])) && (turns_b || b.is([&batch, &sum, &columns]));
    if !equal || !lies || sum.is_empty() || !y.is([&batch, &rows, &columns]) {
        return Err(other());
    }
    // A group without letters lies either way.
    let (turns_a, turns_b) = (turns_a && !rows.is_empty(), turns_b && !columns.is_empty());
    let lead = batch.len();
    let x1 = a.joined(lead, if turns_a { sum.len() } else { rows.len() });
    let x2 = b.joined(lead, if turns_b { columns.len() } else { sum.len() });
    let mut attrs = AttrMap::default();
    attrs.set("adj_x1", turns_a);
    attrs.set("adj_x2", turns_b);
    Ok(Sig {
        op: "BatchMatMulV2".to_owned(),
        attrs,
        inputs: vec![Some(x1), Some(x2)],
        outputs: vec![y.joined(lead, rows.len())],
    })
}
