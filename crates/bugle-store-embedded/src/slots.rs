//! Lanes by their numbers. Numbers are handed out in order and never again, so lanes lie in pages of 64 of them: found with one look
//! into a small tree, walked in order, packed however many of a page are gone.

use std::collections::BTreeMap;
use std::ops::Index;

/// Numbers of one page, as a power of two.
const PAGE_BITS: u32 = 6;

/// Values by number, in order.
pub(crate) struct Slots<T> {
    pages: BTreeMap<u64, Page<T>>,
    len: usize,
}

/// Which numbers of a page are there, and their values side by side.
struct Page<T> {
    present: u64,
    values: Vec<T>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { present: 0, values: Vec::new() }
    }
}

impl<T> Page<T> {
    /// Where the value of a number is, or would be.
    fn place(&self, bit: u64) -> usize {
        (self.present & (bit - 1)).count_ones() as usize
    }

    /// Numbers and values, those of `mask`.
    fn values(&self, page: u64, mask: u64) -> impl Iterator<Item = (u64, &T)> {
        let mut left = self.present & mask;
        std::iter::from_fn(move || {
            let number = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some((page << PAGE_BITS | u64::from(number), &self.values[self.place(1 << number)]))
        })
    }
}

fn split(number: u64) -> (u64, u64) {
    (number >> PAGE_BITS, 1 << (number & ((1 << PAGE_BITS) - 1)))
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { pages: BTreeMap::new(), len: 0 }
    }
}

impl<T> Slots<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let (page, bit) = split(number);
        self.pages.get(&page).is_some_and(|page| page.present & bit != 0)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let (page, bit) = split(number);
        let page = self.pages.get(&page).filter(|page| page.present & bit != 0)?;
        page.values.get(page.place(bit))
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (page, bit) = split(number);
        let page = self.pages.get_mut(&page).filter(|page| page.present & bit != 0)?;
        let place = page.place(bit);
        page.values.get_mut(place)
    }

    /// Put a value, instead of the one that is there.
    pub(crate) fn insert(&mut self, number: u64, value: T) {
        let (page, bit) = split(number);
        let page = self.pages.entry(page).or_default();
        let place = page.place(bit);
        if page.present & bit == 0 {
            page.values.insert(place, value);
            page.present |= bit;
            self.len += 1;
        } else {
            page.values[place] = value;
        }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let (at, bit) = split(number);
        let page = self.pages.get_mut(&at).filter(|page| page.present & bit != 0)?;
        let value = page.values.remove(page.place(bit));
        page.present &= !bit;
        self.len -= 1;
        if page.values.is_empty() {
            self.pages.remove(&at);
        } else if page.values.len() < page.values.capacity() / 2 {
            page.values.shrink_to_fit();
        }
        Some(value)
    }

    /// All that come after this number, in order.
    pub(crate) fn after(&self, number: u64) -> impl Iterator<Item = (u64, &T)> {
        let (first, bit) = split(number);
        let rest = move |page| if page == first { !(bit | (bit - 1)) } else { u64::MAX };
        self.pages.range(first..).flat_map(move |(page, values)| values.values(*page, rest(*page)))
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.pages.iter().flat_map(|(page, values)| values.values(*page, u64::MAX))
    }
}

impl<T> Index<u64> for Slots<T> {
    type Output = T;

    fn index(&self, number: u64) -> &T {
        self.get(number).expect("a number that is in an index has a value")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_what_a_tree_does() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut slots, mut tree) = (Slots::default(), BTreeMap::new());
        for step in 0..20_000_u64 {
            let number = random.u64(0..700);
            if random.u8(..) < 140 {
                assert_eq!(slots.contains(number), tree.contains_key(&number));
                slots.insert(number, step);
                tree.insert(number, step);
            } else {
                assert_eq!(slots.remove(number), tree.remove(&number), "{number}");
            }
            assert_eq!(slots.len(), tree.len());
            assert_eq!(slots.get(number).copied(), tree.get(&number).copied());
            assert_eq!(slots.get_mut(number).copied(), tree.get(&number).copied());
            if step % 97 == 0 {
                assert!(slots.iter().map(|(n, v)| (n, *v)).eq(tree.iter().map(|(n, v)| (*n, *v))));
                let rest: Vec<u64> = tree.range(number + 1..).map(|(n, _)| *n).collect();
                assert!(slots.after(number).map(|(n, _)| n).eq(rest), "after {number}");
            }
        }
    }

    #[test]
    fn what_is_gone_takes_no_room() {
        let mut slots = Slots::default();
        (0..6400_u64).for_each(|number| slots.insert(number, number));
        for number in (0..6400).filter(|number| number % 64 != 5) {
            assert_eq!(slots.remove(number), Some(number));
        }
        assert_eq!(slots.len(), 100);
        assert!(slots.pages.values().all(|page| page.values.capacity() <= 4));
        slots.remove(5);
        assert_eq!(slots.pages.len(), 99, "an empty page is gone");
    }
}
