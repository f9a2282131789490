//! What operators switch, and what servers once told each other over HTTP.

use bugle_wire::{
    BetweenServers, MaintenanceAnswer, NotifyAnswer, NotifyRequest, SharedState, SwitchRequest,
};
use serde_json::json;

use super::SERVER;
use super::answer;
use super::api::Api;
use super::parameter::word;

pub(super) fn describe(api: &mut Api) {
    maintenance(api);
    backup(api);
    between(api);
}

fn maintenance(api: &mut Api) {
    api.get("/api/v1/system/maintenance", "maintenance")
        .says(SERVER, "How pushes and pops are switched, and what is in the spool")
        .about("The switches are those of all servers, the spool is that of the server that answers.")
        .answers_telling::<MaintenanceAnswer<'_>>(
            200,
            "The switches and the spool.",
            &["maintenanceMode", "popMaintenanceMode", "bufferedMessages", "bufferHealthy", "bufferStats"],
        );
    api.post("/api/v1/system/maintenance", "switchPushes")
        .says(SERVER, "Switch push maintenance on or off")
        .about(
            "For all servers. While it is on, pushes are kept on the disk of the server that takes them and answered as `buffered`; \
             when it ends they are stored in their order.",
        )
        .body::<SwitchRequest>(json!({ "enabled": true }))
        .answers_telling::<MaintenanceAnswer<'_>>(
            200,
            "How it is switched now.",
            &["maintenanceMode", "bufferedMessages", "bufferHealthy", "message"],
        )
        .stored();
    api.get("/api/v1/system/maintenance/pop", "popMaintenance")
        .says(SERVER, "How pops are switched")
        .answers_telling::<MaintenanceAnswer<'_>>(200, "The switch.", &["popMaintenanceMode", "message"]);
    api.post("/api/v1/system/maintenance/pop", "switchPops")
        .says(SERVER, "Switch pop maintenance on or off")
        .about("For all servers. While it is on, pops get nothing.")
        .body::<SwitchRequest>(json!({ "enabled": true }))
        .answers_telling::<MaintenanceAnswer<'_>>(
            200,
            "How it is switched now.",
            &["popMaintenanceMode", "message"],
        )
        .stored();
}

fn backup(api: &mut Api) {
    api.post("/api/v1/system/backup", "backup")
        .says(SERVER, "Take a backup of what the server keeps in files")
        .about(
            "A tar archive of a data directory that opens by itself: everything that was answered before the request, \
             as of one moment, with the spool. The server goes on serving. An answer that breaks off is of no use: `FORMAT` comes \
             last. Where messages are kept in PostgreSQL, `spool=only` copies the spool of the server that answers.",
        )
        .takes(word("spool", &["only"], "Copy the spool and nothing else."))
        .answers_with(
            200,
            answer::content(
                "The archive.",
                &[("application/x-tar", json!({ "type": "string", "format": "binary" }))],
                &[],
            ),
        )
        .refuses(409, "Messages are not kept in files of this server.")
        .bounded()
        .stored();
}

fn between(api: &mut Api) {
    api.post("/internal/api/notify", "notify")
        .says(SERVER, "Say that something was written to a queue")
        .about("A hint: pops that wait for it look again, here and on other servers. Servers tell each other by themselves.")
        .body::<NotifyRequest<'_>>(json!({ "queue": "orders", "partition": "customer-7" }))
        .answers::<NotifyAnswer>(200, "It was heard.");
    api.get("/internal/api/shared-state/stats", "sharedStateStats")
        .says(SERVER, "Waiting pops and other servers, under an older path")
        .answers::<SharedState<'_>>(200, "The numbers.");
    api.get("/internal/api/inter-instance/stats", "interInstanceStats")
        .says(SERVER, "How servers hear each other")
        .answers::<BetweenServers<'_>>(200, "The numbers.");
}
