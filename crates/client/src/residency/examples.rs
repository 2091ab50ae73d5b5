//! Small examples of what the planner answers.

#![allow(clippy::single_range_in_vec_init, reason = "one range is what is meant")]

use std::ops::Range;

use super::{By, Events, Home, Lost, Plan, Residency, Use};

/// Events from here on are known to have failed.
const FAILED: u32 = 1 << 31;

/// Events that are numbers; none is known to have ended successfully.
struct Numbers(u32);

impl Events<u32> for Numbers {
    fn arrival(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }

    fn outcome(&self, event: &u32) -> Option<bool> {
        (*event >= FAILED).then_some(false)
    }
}

/// The same, with some homes far from the home that the plan is for.
struct Far<'a>(Numbers, &'a [Home]);

impl Events<u32> for Far<'_> {
    fn arrival(&mut self) -> u32 {
        self.0.arrival()
    }

    fn outcome(&self, event: &u32) -> Option<bool> {
        self.0.outcome(event)
    }

    fn is_far(&self, from: Home) -> bool {
        self.1.contains(&from)
    }
}

fn read(
    residency: &mut Residency<u32>,
    home: Home,
    range: Range<u64>,
    events: &mut Numbers,
) -> Result<Plan<u32>, Lost> {
    residency.plan(home, &Use::Read, &[range], events)
}

fn update(residency: &mut Residency<u32>, home: Home, range: Range<u64>, event: u32) -> Plan<u32> {
    residency.plan(home, &Use::Update(By { event, lane: Some(0) }), &[range], &mut Numbers(event * 100)).unwrap()
}

#[test]
fn what_nobody_has_written_does_not_move() {
    let mut buffer = Residency::new(1 << 30, false);
    assert_eq!(read(&mut buffer, 1, 0..1 << 30, &mut Numbers(0)).unwrap().transfers, []);
    update(&mut buffer, 0, 10..20, 1);
    let plan = read(&mut buffer, 1, 0..1 << 30, &mut Numbers(0)).unwrap();
    assert_eq!((plan.transfers.len(), &plan.transfers[0].ranges), (1, &vec![10..20]));
    assert_eq!(plan.transfers[0].after, [1]);
    assert_eq!(plan.waits, [plan.transfers[0].arrival]);
    assert_eq!(read(&mut buffer, 1, 0..1 << 30, &mut Numbers(9)).unwrap().transfers, [], "it has it now");
}

#[test]
fn copies_come_from_far_away_only_where_nobody_near_has_them() {
    let mut buffer = Residency::new(100, false);
    update(&mut buffer, 0, 0..100, 1);
    read(&mut buffer, 2, 0..60, &mut Numbers(0)).unwrap();
    let from = |buffer: &Residency<u32>, far: &[Home], range| {
        let plan = buffer.clone().plan(1, &Use::Read, &[range], &mut Far(Numbers(10), far)).unwrap();
        plan.transfers.into_iter().map(|transfer| (transfer.from, transfer.ranges)).collect::<Vec<_>>()
    };
    let all_from = |home| vec![(home, vec![0..60])];
    assert_eq!((from(&buffer, &[0], 0..60), from(&buffer, &[2], 0..60)), (all_from(2), all_from(0)));
    assert_eq!(from(&buffer, &[0, 2], 0..60), from(&buffer, &[], 0..60));
    // One has it all; it is far, and so the other gives what it can.
    assert_eq!(from(&buffer, &[0], 50..100), [(0, vec![60..100]), (2, vec![50..60])]);
}

#[test]
fn what_has_come_nowhere_is_where_it_was() {
    let mut buffer = Residency::new(100, false);
    update(&mut buffer, 0, 0..100, 1);
    // On its way to another home, where it is to be changed, it fails.
    let lost = residency_fails_at(&mut buffer, 1, 0..100);
    let plan = read(&mut buffer, 2, 0..100, &mut Numbers(10)).unwrap();
    assert_eq!((plan.transfers[0].from, &plan.transfers[0].after), (0, &vec![1]), "after its writer there");
    assert!(!plan.waits.contains(&lost));
    // From one to another and further, all of it in vain.
    residency_fails_at(&mut buffer, 1, 0..100);
    residency_fails_at(&mut buffer, 2, 0..50);
    residency_fails_at(&mut buffer, 0, 0..50);
    let plan = read(&mut buffer, 3, 0..100, &mut Numbers(20)).unwrap();
    assert_eq!((plan.transfers.len(), plan.transfers[0].from), (1, 0));
    // There is no way back to a home that is gone.
    residency_fails_at(&mut buffer, 1, 0..100);
    buffer.lose(0, |_| false);
    assert_eq!(read(&mut buffer, 2, 0..100, &mut Numbers(30)), Err(Lost));
}

#[test]
fn what_was_changed_elsewhere_is_not_where_it_was() {
    let mut buffer = Residency::new(100, false);
    update(&mut buffer, 0, 0..100, 1);
    update(&mut buffer, 1, 0..100, 2);
    // It has come there; from there it goes on in vain.
    residency_fails_at(&mut buffer, 2, 0..100);
    let plan = read(&mut buffer, 3, 0..100, &mut Numbers(10)).unwrap();
    assert_eq!((plan.transfers[0].from, plan.transfers[0].after.contains(&2)), (1, true));
}

/// An update for which the contents do not arrive; the arrival's event.
fn residency_fails_at(residency: &mut Residency<u32>, home: Home, range: Range<u64>) -> u32 {
    let by = By { event: FAILED - 1, lane: None };
    residency.plan(home, &Use::Update(by), &[range], &mut Numbers(FAILED)).unwrap();
    FAILED + 1
}

#[test]
fn first_contents_go_to_whoever_comes_first() {
    let mut buffer = Residency::new(100, true);
    let plan = read(&mut buffer, 2, 0..10, &mut Numbers(0)).unwrap();
    assert!(plan.first_contents && plan.transfers.is_empty() && plan.waits.is_empty());
    let plan = read(&mut buffer, 0, 0..10, &mut Numbers(0)).unwrap();
    assert!(!plan.first_contents);
    assert_eq!((plan.transfers[0].from, plan.transfers[0].after.len()), (2, 0));
}

#[test]
fn halves_written_in_two_homes_come_together() {
    let mut buffer = Residency::new(100, false);
    assert_eq!(update(&mut buffer, 0, 0..50, 1).transfers, []);
    assert_eq!(update(&mut buffer, 1, 50..100, 2).transfers, []);
    let plan = read(&mut buffer, 0, 0..100, &mut Numbers(0)).unwrap();
    assert_eq!((plan.transfers[0].from, &plan.transfers[0].ranges), (1, &vec![50..100]));
    let plan = read(&mut buffer, 2, 0..100, &mut Numbers(10)).unwrap();
    assert_eq!(plan.transfers.len(), 1, "from the one that has both: {plan:?}");
    assert_eq!(plan.transfers[0].from, 0);
}

#[test]
fn what_did_not_arrive_is_not_there_and_can_be_written() {
    let mut buffer = Residency::new(10, false);
    update(&mut buffer, 0, 0..10, 1);
    read(&mut buffer, 1, 0..10, &mut Numbers(FAILED)).unwrap();
    let again = read(&mut buffer, 1, 0..10, &mut Numbers(FAILED)).unwrap();
    assert_eq!(again.transfers[0].from, 0, "it comes again");
    buffer.lose(0, |_| false);
    assert_eq!(read(&mut buffer, 1, 0..10, &mut Numbers(0)), Err(Lost));
    let by = By { event: 5, lane: None };
    let plan = buffer.plan(1, &Use::Overwrite(by), &[0..10], &mut Numbers(0)).unwrap();
    assert_eq!((plan.transfers, plan.waits), (vec![], vec![]));
    assert_eq!(read(&mut buffer, 2, 0..10, &mut Numbers(0)).unwrap().transfers[0].from, 1);
}

#[test]
fn a_broadcast_spreads_like_a_tree() {
    let mut buffer = Residency::new(100, false);
    update(&mut buffer, 0, 0..100, 1);
    let mut events = Numbers(1);
    let from: Vec<_> =
        (1..8).map(|home| read(&mut buffer, home, 0..100, &mut events).unwrap().transfers[0].from).collect();
    let most = (0..8).map(|home| from.iter().filter(|&&source| source == home).count()).max();
    assert_eq!(most, Some(3), "eight homes in three steps: {from:?}");
}

#[test]
fn going_to_and_fro_waits_for_nothing_old() {
    let mut buffer = Residency::new(4, false);
    update(&mut buffer, 0, 0..4, 1);
    for event in 2..20 {
        let plan = update(&mut buffer, (event as usize - 1) % 2, 0..4, event);
        let after = &plan.transfers[0].after;
        assert!(after.contains(&(event - 1)), "{after:?}");
        assert!(
            event == 2 || !after.contains(&(event * 100 - 199)),
            "what arrived there before is known to be over: {after:?}"
        );
        assert_eq!(buffer.pieces.len(), 1);
    }
}

#[test]
fn many_small_writes_make_few_pieces() {
    let mut buffer = Residency::new(1 << 20, false);
    for event in 0..20_000u64 {
        let (home, start) = ((event * 7 % 3) as usize, event * 7919 * 4 % (1 << 20));
        let by = By { event: event as u32, lane: Some(0) };
        buffer.plan(home, &Use::Overwrite(by), &[start..start + 4], &mut Numbers(1 << 30)).unwrap();
        assert!(buffer.pieces.len() <= super::MOST_PIECES + 2);
    }
}

#[test]
fn rows_of_several_slices_move_as_boxes() {
    // Five slices of ten bytes, of which the second home lacks what begins and ends within slices.
    let mut image = Residency::of_slices(50, 10, false);
    update(&mut image, 0, 4..38, 1);
    let boxes = |plan: Plan<u32>| plan.transfers.into_iter().flat_map(|transfer| transfer.ranges).collect::<Vec<_>>();
    let plan = read(&mut image, 1, 0..50, &mut Numbers(0)).unwrap();
    assert_eq!((plan.transfers.len(), plan.waits.len()), (3, 3), "each with an arrival of its own");
    assert_eq!(boxes(plan), [4..10, 10..30, 30..38]);
    // Rows that are whole again move at once, and so does a part within one slice.
    update(&mut image, 0, 10..20, 2);
    update(&mut image, 0, 20..30, 3);
    assert_eq!(boxes(read(&mut image, 1, 0..50, &mut Numbers(10)).unwrap()), [10..30]);
    update(&mut image, 0, 22..24, 4);
    update(&mut image, 0, 24..26, 5);
    assert_eq!(boxes(read(&mut image, 1, 0..50, &mut Numbers(20)).unwrap()), [22..26]);
}
