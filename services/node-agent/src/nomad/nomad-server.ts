/**
 * The socket to which Nomad's volume plugin (deploy/nomad/holdfast) hands the variables of its operations, as a form. Who may open the
 * socket may make, mount and delete volumes in the namespaces in which this node may ask for claims.
 */
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";
import type { Logger } from "@holdfast/shared/log/logger";
import { durationBuckets, type Metrics } from "@holdfast/shared/metrics";
import type { Tracing } from "@holdfast/shared/tracing";
import { BadCall, createPostServer, type PostServer, refusalWords } from "../host-volumes/post-server.ts";
import { createToldCalls } from "../host-volumes/told-calls.ts";
import type { NomadVolume, NomadVolumes } from "./nomad-volumes.ts";

export interface NomadServerOptions {
  readonly volumes: NomadVolumes;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly now: () => number;
  /** The agent's life. */
  readonly signal: AbortSignal;
}

type Method = (volumes: NomadVolumes, form: URLSearchParams, signal: AbortSignal) => Promise<object>;

/** The plugin ends before Nomad ends it; it is answered a little before that. */
const waits = { least: 1, most: 50, answerMs: 500 };

const waitOf = (form: URLSearchParams): number => {
  const seconds = Number(form.get("wait") ?? waits.most);
  if (!Number.isInteger(seconds) || seconds < waits.least) throw new BadCall(400, "wait has to be whole seconds");
  return Math.min(seconds, waits.most) * 1000 - waits.answerMs;
};

const text = (form: URLSearchParams, field: string): string => form.get(field) ?? "";

const lastOf = (form: URLSearchParams): NomadVolume | undefined => {
  try {
    const value = JSON.parse(text(form, "last")) as Partial<NomadVolume> | null;
    const { path, bytes, asked } = value ?? {};
    if (typeof path !== "string" || typeof bytes !== "number" || typeof asked !== "string") return undefined;
    return { path, bytes, asked };
  } catch {
    // None, or cut: it is asked anew.
    return undefined;
  }
};

const methods: Readonly<Record<string, Method>> = {
  "/create": (volumes, form, signal) => {
    const request = {
      namespace: text(form, "namespace"),
      id: text(form, "id"),
      name: text(form, "name"),
      capacityMin: text(form, "capacity_min"),
      capacityMax: text(form, "capacity_max"),
      parameters: text(form, "parameters"),
    };
    return volumes.create(request, lastOf(form), waitOf(form), signal);
  },
  "/delete": async (volumes, form, signal) => {
    await volumes.remove({ namespace: text(form, "namespace"), id: text(form, "id") }, waitOf(form), signal);
    return {};
  },
};

export function createNomadServer({ volumes, log, metrics, tracing, now, signal }: NomadServerOptions): PostServer {
  const told = createToldCalls({
    program: "Nomad",
    seconds: metrics.histogram({
      name: "holdfast_nomad_call_seconds",
      help: "Operations of Nomad's volume plugin.",
      labels: ["method", "outcome"],
      buckets: durationBuckets,
    }),
    span: "nomad ",
    quiet: new Set(),
    ...{ log, tracing, now },
  });
  return createPostServer({
    ...{ setting: "HOLDFAST_NOMAD_SOCKET", program: "Nomad", contentType: "application/json", log, signal },
    serves: (at) => Object.hasOwn(methods, at),
    async answer(at, body, caller) {
      const run = methods[at];
      if (run === undefined) throw new Error(`${at} is not served`);
      const form = new URLSearchParams(body);
      const call = { method: at.slice(1), volume: text(form, "id"), namespace: text(form, "namespace") };
      return { status: 200, body: await told(call, caller, () => run(volumes, form, caller)) };
    },
    refusal(error) {
      if (error instanceof BadCall) return { status: error.status, body: { error: error.message } };
      const status = isHoldfastError(error) && error.kind === "unavailable" ? 503 : 409;
      return { status, body: { error: refusalWords(error) } };
    },
  });
}
