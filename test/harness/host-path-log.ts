/** What csi-driver-host-path says with `--v=5`: a line as a call begins, and its request and answer as it ends. */

export interface DriverCall {
  readonly method: string;
  /** Empty as long as there is no answer. */
  readonly end: "" | "OK" | string;
  /** In the words of its log, once it is answered. */
  readonly request?: Readonly<Record<string, unknown>>;
}

/** The calls of one life of the driver in the order of their begin; those of one method end in that order too, for it works on one at a time. */
export const callsIn = (log: string): readonly DriverCall[] => {
  const calls: { method: string; end: string; request?: NonNullable<DriverCall["request"]> }[] = [];
  for (const line of log.split("\n")) {
    const [, begun] = /\] GRPC call: \/csi\.v1\.\w+\/(\w+)/.exec(line) ?? [];
    if (begun !== undefined) calls.push({ method: begun, end: "" });
    const [, ended] = /\] gRPCCall: (\{.*\})/.exec(line) ?? [];
    if (ended === undefined) continue;
    const {
      Method,
      Request,
      Error: error,
    } = JSON.parse(ended) as {
      readonly Method: string;
      readonly Request: Readonly<Record<string, unknown>>;
      readonly Error: string;
    };
    const method = Method.slice(Method.lastIndexOf("/") + 1);
    const open = calls.find((call) => call.method === method && call.end === "");
    if (open === undefined) throw new Error(`an answer of ${method} without its call: ${line}`);
    open.end = error === "" ? "OK" : error;
    open.request = Request;
  }
  return calls;
};

/** Methods that end with a write of the driver's record, in the order of a volume's life. */
export const recordedMethods = [
  "CreateVolume",
  "ControllerPublishVolume",
  "NodeStageVolume",
  "NodePublishVolume",
  "CreateSnapshot",
  "CreateVolumeGroupSnapshot",
  "ControllerExpandVolume",
  "NodeUnpublishVolume",
  "NodeUnstageVolume",
  "ControllerUnpublishVolume",
  "DeleteVolumeGroupSnapshot",
  "DeleteSnapshot",
  "DeleteVolume",
] as const;
export type RecordedMethod = (typeof recordedMethods)[number];

/** What it refuses as out of order; "is still used" only with `--check-volume-lifecycle`. */
const outOfOrder =
  /is still used|must be staged before publishing|was staged at|is still published at|is already staged at|must be called on volume|incompatible readonly flag|already mounted at a different target/;

export const lifecycleErrors = (calls: readonly DriverCall[]): readonly string[] =>
  calls.filter(({ end }) => outOfOrder.test(end)).map(({ method, end }) => `${method}: ${end}`);

/** Everything else that it answered with an error. */
export const otherErrors = (calls: readonly DriverCall[]): readonly string[] =>
  calls
    .filter(({ end }) => end !== "" && end !== "OK" && !outOfOrder.test(end))
    .map(({ method, end }) => `${method}: ${end}`);
