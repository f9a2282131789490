use super::*;

const SECOND: i64 = 1_000_000;

fn at(minutes: i64) -> Timestamp {
    Timestamp(minutes * 60 * SECOND)
}

fn counts(pushed: u64) -> QueueCounts {
    QueueCounts { pushed, ..QueueCounts::default() }
}

fn record(server: &str, minute: i64, queues: &[(&str, u64)]) -> Record {
    let pushed: u64 = queues.iter().map(|(_, pushed)| pushed).sum();
    Record {
        id: Uuid::new_v4(),
        host: "host".into(),
        server: server.into(),
        start: at(minute),
        end: at(minute + 1),
        counts: ServerCounts { push_requests: 1, push_messages: pushed, ..ServerCounts::default() },
        gauges: Gauges { pool_idle: pushed, ..Gauges::default() },
        queues: queues.iter().map(|(name, pushed)| ((*name).into(), counts(*pushed))).collect(),
        rest: QueueCounts::default(),
    }
}

fn chart(from: i64, to: i64, minutes: u32) -> Chart {
    Chart::new((at(from), at(to), MINUTE * minutes), false, true)
}

#[test]
fn the_length_of_buckets_follows_the_time_asked_for() {
    let minutes = |length: u64| width(MINUTE * u32::try_from(length).unwrap()).as_secs() / 60;
    for (length, bucket) in [(1, 1), (60, 1), (61, 5), (360, 5), (361, 15), (1440, 15), (1441, 60)] {
        assert_eq!(minutes(length), bucket, "{length}");
    }
    assert_eq!((minutes(10_080), minutes(10_081)), (60, 360));
    assert_eq!(width(Duration::from_millis(3_600_001)), MINUTE * 5);
}

#[test]
fn times_have_defaults_and_an_order_and_a_bound() {
    let hour = MINUTE * 60;
    assert_eq!(range(None, None, hour, None, at(100)), Ok((at(40), at(100), MINUTE)));
    assert_eq!(range(None, Some(at(90)), hour, None, at(100)), Ok((at(30), at(90), MINUTE)));
    assert_eq!(range(Some(at(1)), Some(at(2)), hour, Some(hour), at(9)), Ok((at(1), at(2), hour)));
    for (from, to) in [(5, 5), (6, 5)] {
        assert_eq!(
            range(Some(at(from)), Some(at(to)), hour, None, at(9)),
            Err("from must be before to".into())
        );
    }
    assert!(range(Some(at(200)), None, hour, None, at(100)).is_err(), "from the future to now");
    let error = range(Some(at(0)), Some(at(1501)), hour, Some(MINUTE), at(9)).unwrap_err();
    assert_eq!(error, "from and to may be at most 25 hours apart with buckets of 1 minutes");
    assert!(range(Some(at(0)), Some(at(1500)), hour, Some(MINUTE), at(9)).is_ok());
    assert!(range(Some(Timestamp::ZERO), None, hour, None, at(29_000_000)).is_err(), "since ever");
}

#[test]
fn records_add_up_by_bucket_server_and_queue() {
    let mut chart = chart(0, 60, 5);
    for record in [
        record("a", 4, &[("q", 2)]),
        record("a", 3, &[("q", 1), ("r", 10)]),
        record("a", 5, &[("q", 4)]),
        record("b", 4, &[("q", 8)]),
    ] {
        chart.put(&record, None);
    }
    let history = chart.finish(false);
    let names: Vec<&str> = history.servers.iter().map(|server| &*server.name).collect();
    assert_eq!(names, ["a", "b"]);
    let a = &history.servers[0];
    assert_eq!(a.last_seen, at(6));
    let seen: Vec<_> =
        a.points.iter().map(|p| (p.at, p.records, p.counts.push_messages, p.traffic.pushed)).collect();
    assert_eq!(seen, [(at(0), 2, 13, 13), (at(5), 1, 4, 4)]);
    assert_eq!(a.points[0].covered, MINUTE * 2);
    assert_eq!((a.points[0].gauges.pool_idle.max, a.points[0].gauges.pool_idle.last), (11, 2));
    let queues: Vec<_> = history.by_queue().into_iter().map(|(at, name, c)| (at, name, c.pushed)).collect();
    assert_eq!(queues, [(at(0), "q".into(), 11), (at(0), "r".into(), 10), (at(5), "q".into(), 4)]);
    let together: Vec<_> = history.points().into_iter().map(|(at, points)| (at, points.len())).collect();
    assert_eq!(together, [(at(0), 2), (at(5), 1)]);
}

#[test]
fn servers_keep_their_queues_whatever_order_they_are_met_in() {
    let mut chart = chart(0, 60, 1);
    chart.put(&record("z", 1, &[("of z", 1)]), None);
    chart.put(&record("a", 1, &[("of a", 1)]), None);
    let history = chart.finish(false);
    for point in &history.queues {
        assert_eq!(*point.queue, *format!("of {}", history.servers[point.server].name));
    }
}

#[test]
fn what_lies_outside_does_not_count_but_the_minute_of_the_beginning_does() {
    let half = Timestamp(at(10).0 + 30 * SECOND);
    let mut chart = Chart::new((half, at(20), MINUTE), false, false);
    for minute in [9, 10, 19, 20] {
        chart.put(&record("a", minute, &[("q", 1)]), None);
    }
    let points: Vec<_> = chart.finish(false).servers[0].points.iter().map(|p| p.at).collect();
    assert_eq!(points, [at(10), at(19)]);
    let mut open = Chart::new((half, at(20), MINUTE), true, false);
    open.put(&record("a", 20, &[("q", 1)]), None);
    assert_eq!(open.finish(false).servers.len(), 1, "another server's clock may be ahead");
}

#[test]
fn queues_that_are_not_wanted_do_not_count_and_neither_do_those_without_a_name() {
    let mut record = record("a", 1, &[("q", 1), ("r", 10)]);
    record.rest = counts(100);
    let (mut all, mut one) = (chart(0, 60, 1), chart(0, 60, 1));
    all.put(&record, None);
    one.put(&record, Some(&|name| name == "r"));
    let (all, one) = (all.finish(false), one.finish(false));
    assert_eq!((all.servers[0].points[0].traffic.pushed, all.queues.len()), (111, 3));
    assert_eq!((one.servers[0].points[0].traffic.pushed, one.queues.len()), (10, 1));
}

#[test]
fn too_many_queues_are_told_of_together() {
    let mut chart = Chart { most: 2, ..chart(0, 60, 1) };
    chart.put(&record("a", 1, &[("q", 1), ("r", 2), ("s", 4), ("t", 8)]), None);
    chart.put(&record("a", 1, &[("r", 16)]), None);
    let queues: Vec<_> = chart.finish(false).queues.into_iter().map(|p| (p.queue, p.counts.pushed)).collect();
    assert_eq!(queues, [("other".into(), 12), ("q".into(), 1), ("r".into(), 18)]);
}

#[test]
fn the_busiest_queues_are_told_of_and_nothing_gets_lost() {
    let parked = QueueCounts { parked: 1, ..QueueCounts::default() };
    let queues =
        vec![("a".into(), counts(1)), ("b".into(), counts(5)), ("c".into(), parked), ("d".into(), parked)];
    let (kept, rest) = busiest(queues.clone(), 1);
    assert_eq!(kept, [("b".into(), counts(5))]);
    assert_eq!((rest.pushed, rest.parked), (1, 2));
    assert_eq!(busiest(queues, 9).0.len(), 4);
}

#[test]
fn empty_pops_are_quiet_and_calls_to_the_store_are_nothing() {
    let still = Record { counts: ServerCounts::default(), ..record("a", 1, &[]) };
    let with = |counts| Record { counts, ..still.clone() }.movement();
    assert_eq!(still.movement(), Movement::None);
    assert_eq!(with(ServerCounts { store_calls: 9, user_us: 1, ..ServerCounts::default() }), Movement::None);
    assert_eq!(
        with(ServerCounts { pop_requests: 1, pop_empty: 1, ..ServerCounts::default() }),
        Movement::Quiet
    );
    assert_eq!(with(ServerCounts { store_errors: 1, ..ServerCounts::default() }), Movement::Loud);
    let of_queue = |counts| Record { queues: vec![("q".into(), counts)], ..still.clone() }.movement();
    assert_eq!(of_queue(QueueCounts { parked: 3, ..QueueCounts::default() }), Movement::None);
    assert_eq!(of_queue(QueueCounts { pop_empty: 3, ..QueueCounts::default() }), Movement::Quiet);
    assert_eq!(of_queue(QueueCounts { evicted: 3, ..QueueCounts::default() }), Movement::Loud);
}

#[test]
fn a_record_comes_back_as_it_was_written() {
    let mut record = record("a", 1, &[("q \"1\"", 1)]);
    record.rest = counts(7);
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
}
