/** Stored events → messages of holdfast.v1. Bodies are notes of the domain: flat, without secrets. */
import { type Event, type EventFilter, EventSeverity, type EventSubject } from "@holdfast/shared/gen/holdfast/v1/event";
import type { LastError } from "../../domain/outcome.ts";
import type { AggregateKind, StoredEvent } from "../../domain/store-types.ts";
import { dateOf, lastErrorMessage } from "../convert-message.ts";

type Body = Readonly<Record<string, unknown>>;

const bodyOf = ({ body }: StoredEvent): Body => {
  const note: unknown = JSON.parse(body);
  return typeof note === "object" && note !== null ? { ...note } : {};
};

const text = (body: Body, field: string): string => {
  const value = body[field];
  return typeof value === "string" ? value : "";
};

const severities = {
  BLOCKED: EventSeverity.EVENT_SEVERITY_BLOCKED,
  FAILED: EventSeverity.EVENT_SEVERITY_WARNING,
  FENCED: EventSeverity.EVENT_SEVERITY_WARNING,
  FENCING: EventSeverity.EVENT_SEVERITY_WARNING,
  QUARANTINED: EventSeverity.EVENT_SEVERITY_WARNING,
  DEGRADED: EventSeverity.EVENT_SEVERITY_WARNING,
  SUSPECT: EventSeverity.EVENT_SEVERITY_WARNING,
  FOUND: EventSeverity.EVENT_SEVERITY_WARNING,
  UNMOUNTED: EventSeverity.EVENT_SEVERITY_WARNING,
  DEVICE_SMALLER: EventSeverity.EVENT_SEVERITY_WARNING,
  ABNORMAL: EventSeverity.EVENT_SEVERITY_WARNING,
  STORAGE_UNREACHABLE: EventSeverity.EVENT_SEVERITY_WARNING,
  STORAGE_DEGRADED: EventSeverity.EVENT_SEVERITY_WARNING,
  HEALTH_DEGRADED: EventSeverity.EVENT_SEVERITY_WARNING,
  HEALTH_INACCESSIBLE: EventSeverity.EVENT_SEVERITY_WARNING,
  HEALTH_DATA_LOSS: EventSeverity.EVENT_SEVERITY_CRITICAL,
} satisfies Record<string, EventSeverity>;

const severityOf = (type: string, word: string): EventSeverity => {
  if (type === "audit") return EventSeverity.EVENT_SEVERITY_AUDIT;
  return Object.hasOwn(severities, word)
    ? severities[word as keyof typeof severities]
    : EventSeverity.EVENT_SEVERITY_INFO;
};

/** What an event says first: that it is stuck, then that it is hurt, then where it is. */
const wordOf = (type: string, body: Body): string => {
  if (type === "orphan") return "FOUND";
  if (type === "attach-limit") return "LEARNED";
  // A note of a condition is about nothing else, whatever the volume is besides.
  if (text(body, "condition") !== "") return text(body, "condition");
  if (text(body, "unmounted") !== "") return "UNMOUNTED";
  if (text(body, "health") !== "") return `HEALTH_${text(body, "health")}`;
  if (text(body, "storage") !== "") return text(body, "storage");
  if (text(body, "device") !== "") return `DEVICE_${text(body, "device")}`;
  if (text(body, "blocked") !== "") return "BLOCKED";
  if (body["degraded"] === true) return "DEGRADED";
  if (text(body, "call") !== "") return "CALLING";
  if (body["forgotten"] === true) return "FORGOTTEN";
  if (body["drained"] === true) return "DRAINED";
  return (text(body, "state") || text(body, "change") || text(body, "verb") || "CHANGED").toUpperCase();
};

const subjectOf = (body: Body): EventSubject => ({
  namespace: text(body, "namespace"),
  volume: text(body, "volume"),
  workload: text(body, "workload"),
  alias: text(body, "alias"),
  claimUid: text(body, "claimUid"),
  snapshot: text(body, "snapshot"),
  node: text(body, "node"),
  plugin: text(body, "plugin"),
  secret: text(body, "secret"),
});

const errorIn = (body: Body, reason: string): LastError => ({
  reason,
  message: "",
  method: text(body, "method"),
  code: text(body, "code"),
  at: typeof body["at"] === "number" ? body["at"] : 0,
  traceId: text(body, "trace"),
});

/** What it is about, in a person's words. */
const namesOf = (type: string, kind: AggregateKind, key: string, s: EventSubject): string => {
  const volume = s.volume === "" ? "" : `volume ${s.namespace}/${s.volume}`;
  const namespace = s.namespace === "" ? "the store" : `namespace ${s.namespace}`;
  if (type === "claim") return `claim ${s.alias} of ${s.workload} on ${volume} at node ${s.node}`;
  if (type === "audit" && kind === "grant") return `scheduler ${key}`;
  if (type === "audit")
    return [volume, s.workload, s.node, s.plugin].filter((name) => name !== "").join(", ") || namespace;
  return volume === "" || kind !== "volume" ? `${type} ${key}` : volume;
};

const sentence = (type: string, word: string, names: string, body: Body): string => {
  const why = text(body, "blocked") || text(body, "failure");
  if (type === "audit") return `${text(body, "who")} used ${text(body, "verb")} on ${names}: ${text(body, "reason")}`;
  if (word === "CALLING") return `${names} waits for ${text(body, "call")}, which has no answer yet`;
  if (word === "UNMOUNTED")
    return `the agent unmounted ${text(body, "unmounted")} of ${names}: the plugin had answered twice that it was gone, and no process used it`;
  if (text(body, "said") !== "") return `${names}: ${text(body, "said")}`;
  return `${names} is ${word}${why === "" ? "" : `: ${why}`}`;
};

const upperSnake = (word: string): string => word.replace(/([a-z])([A-Z])/g, "$1_$2").toUpperCase();

export const eventMessage = (event: StoredEvent, resumeToken: string): Event => {
  const body = bodyOf(event);
  const { type, ref } = event;
  const word = wordOf(type, body);
  const about = subjectOf(body);
  const subject = type === "claim" ? { ...about, claimUid: text(body, "uid") } : about;
  const at = typeof body["at"] === "number" ? dateOf(body["at"]) : undefined;
  const failure = text(body, "failure");
  const reason =
    type === "audit" ? `AUDIT_${upperSnake(text(body, "verb"))}` : `${type}_${word}`.replaceAll("-", "_").toUpperCase();
  return {
    resumeToken,
    at,
    reason,
    severity: severityOf(type, word),
    subject,
    message: sentence(type, word, namesOf(type, ref.kind, ref.key, subject), body),
    error:
      failure === ""
        ? undefined
        : lastErrorMessage(errorIn(body, failure), { plugin: subject.plugin, node: subject.node }),
    by: { who: text(body, "who"), why: text(body, "why") || text(body, "reason"), at },
    traceId: text(body, "trace"),
  };
};

/** Empty fields do not filter. */
export const fitsEvent = (filter: EventFilter, { subject, reason, severity }: Event): boolean =>
  (["namespace", "volume", "workload", "node", "plugin"] as const).every(
    (field) => filter[field] === "" || filter[field] === subject?.[field],
  ) &&
  (filter.reasons.length === 0 || filter.reasons.includes(reason)) &&
  severity >= filter.minimumSeverity;
