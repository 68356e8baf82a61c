import type { Malformation } from "../backend/faults.ts";
import type { Method } from "../backend/rpc.ts";

type Message = Record<string, unknown>;

const idFields = ["volumeId", "snapshotId", "groupSnapshotId", "nodeId", "name"];

/** Changes the id wherever the response has one: at its top or in the message it wraps. */
const changeId = (message: Message, change: (id: string) => string): Message =>
  Object.fromEntries(
    Object.entries(message).map(([name, member]) => {
      if (idFields.includes(name) && typeof member === "string") return [name, change(member)];
      const nested =
        ["volume", "snapshot", "groupSnapshot"].includes(name) && typeof member === "object" && member !== null;
      return [name, nested ? changeId(member as Message, change) : member];
    }),
  );

const changeField = (message: Message, field: string, value: unknown): Message =>
  Object.fromEntries(
    Object.entries(message).map(([name, member]) => {
      if (name === field) return [name, value];
      return [
        name,
        name === "volume" && typeof member === "object" && member !== null
          ? changeField(member as Message, field, value)
          : member,
      ];
    }),
  );

const bigMap = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`key-${index}`, "x".repeat(120)]));
const unknownCapability = { rpc: { type: 999 }, service: undefined, volumeExpansion: undefined };

const isMessage = (value: unknown): value is Message => typeof value === "object" && value !== null;

const oldConfirmation = (confirmed: unknown): unknown => {
  if (!isMessage(confirmed)) return confirmed;
  const capabilities = Array.isArray(confirmed["volumeCapabilities"]) ? confirmed["volumeCapabilities"] : [];
  return {
    ...confirmed,
    mutableParameters: {},
    volumeCapabilities: capabilities.map((one: unknown) =>
      isMessage(one) && isMessage(one["mount"]) ? { ...one, mount: { ...one["mount"], volumeMountGroup: "" } } : one,
    ),
  };
};

const changes: { readonly [M in Malformation]: (message: Message) => Message } = {
  "empty-reply": () => ({}),
  "missing-id": (message) => changeId(message, () => ""),
  "oversize-id": (message) => changeId(message, (id) => id.padEnd(300, "x")),
  "control-characters-in-id": (message) => changeId(message, (id) => `${id}\u0007\n`),
  "foreign-node-id": (message) => changeId(message, (id) => `${id}-other`),
  "oversize-context": (message) => changeField(changeField(message, "volumeContext", bigMap), "publishContext", bigMap),
  "negative-capacity": (message) => changeField(message, "capacityBytes", -1n),
  "zero-capacity": (message) => changeField(message, "capacityBytes", 0n),
  "unknown-capability": (message) =>
    Array.isArray(message["capabilities"])
      ? { ...message, capabilities: [...message["capabilities"], unknownCapability] }
      : message,
  "nothing-confirmed": (message) => ({ ...message, confirmed: undefined, message: "" }),
  "old-confirmation": (message) => ({ ...message, confirmed: oldConfirmation(message["confirmed"]) }),
  // Shown by the status, not by the response: see perform.ts.
  "oversize-message": (message) => message,
};

/** Past this size status messages are known to wedge connections. */
export const oversizeMessage = "x".repeat(100_000);

export const malform = (_: Method, response: unknown, how: Malformation): unknown =>
  typeof response === "object" && response !== null ? changes[how](response as Message) : response;
