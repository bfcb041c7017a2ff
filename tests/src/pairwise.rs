//! Few cases of many dimensions in which each two values of different dimensions meet.

use std::collections::BTreeSet;

/// A dimension, and the number of a value in it.
type Value = (usize, usize);

/// Cases of dimensions of these sizes: the number of a value in each. The result is always the same.
pub fn pairwise(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut open: BTreeSet<(Value, Value)> = BTreeSet::new();
    for (one, count) in sizes.iter().enumerate() {
        for (other, others) in sizes.iter().enumerate().skip(one + 1) {
            open.extend((0..*count).flat_map(|a| (0..*others).map(move |b| ((one, a), (other, b)))));
        }
    }
    let mut cases = Vec::new();
    while let Some(((one, a), (other, b))) = open.first().copied() {
        let mut case = vec![None; sizes.len()];
        (case[one], case[other]) = (Some(a), Some(b));
        for dimension in 0..sizes.len() {
            if case[dimension].is_none() {
                let best = (0..sizes[dimension])
                    .max_by_key(|value| (met(&open, &case, (dimension, *value)), usize::MAX - value));
                case[dimension] = best;
            }
        }
        let case: Vec<usize> = case.into_iter().map(|value| value.unwrap_or(0)).collect();
        open.retain(|((one, a), (other, b))| case[*one] != *a || case[*other] != *b);
        cases.push(case);
    }
    cases
}

/// Number of new pairs that a value makes with the values that a case has already.
fn met(open: &BTreeSet<(Value, Value)>, case: &[Option<usize>], value: Value) -> usize {
    let known = case.iter().enumerate().filter_map(|(dimension, known)| Some((dimension, (*known)?)));
    known.filter(|known| open.contains(&(*known.min(&value), *known.max(&value)))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_two_values_meet() {
        let sizes = [4, 3, 2, 5, 2];
        let cases = pairwise(&sizes);
        for (one, count) in sizes.iter().enumerate() {
            for (other, others) in sizes.iter().enumerate().skip(one + 1) {
                for (a, b) in (0..*count).flat_map(|a| (0..*others).map(move |b| (a, b))) {
                    assert!(cases.iter().any(|case| case[one] == a && case[other] == b), "{one}:{a} {other}:{b}");
                }
            }
        }
        assert!(cases.len() < 40, "{}", cases.len());
    }
}
