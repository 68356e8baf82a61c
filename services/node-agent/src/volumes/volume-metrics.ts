/** What /metrics tells of the volumes: each order with its plugin, operation and end; what waits; what is mounted; what ails. */
import type { Clock } from "@holdfast/shared/async/clock";
import type { GaugeMetric, Metrics } from "@holdfast/shared/metrics";
import type { ExpandResult, PublishResult, ReleaseResult } from "../domain/answer-types.ts";
import type { Ledger } from "../ports.ts";
import type { VolumeManager } from "./volume-manager.ts";

type Operation = "publish" | "release" | "expand";
type Result = PublishResult | ReleaseResult | ExpandResult;

export interface VolumeMetricsOptions {
  readonly metrics: Metrics;
  readonly ledger: Pick<Ledger, "volumes">;
  readonly lost: () => readonly unknown[];
  readonly clock: Clock;
}

/** The same manager, counted. */
export function meterVolumes(volumes: VolumeManager, options: VolumeMetricsOptions): VolumeManager {
  const { metrics, ledger, lost, clock } = options;
  /** By plugin and operation; asked for and not answered, whether it runs or waits for its volume. */
  const open = new Map<string, { readonly plugin: string; readonly operation: Operation; count: number }>();
  const orders = metrics.histogram({
    name: "holdfast_order_seconds",
    help: "Time of each order of a controller, with how it ended: OK, the reason, or ERROR for one that was not taken.",
    labels: ["plugin", "operation", "code"],
  });
  metrics.gauge({
    name: "holdfast_orders_open",
    help: "Orders that are not answered yet: under way, or waiting for their volume.",
    labels: ["plugin", "operation"],
    collect(gauge) {
      for (const { plugin, operation, count } of open.values()) gauge.set({ plugin, operation }, count);
    },
  });
  metrics.gauge({
    name: "holdfast_staged_volumes",
    help: "Volumes that are staged here.",
    labels: ["plugin"],
    collect: byPlugin(ledger, ({ stage }) => (stage.needed && stage.phase !== "unstaged" ? 1 : 0)),
  });
  metrics.gauge({
    name: "holdfast_publications",
    help: "Publications that are in the mount table.",
    labels: ["plugin"],
    collect: byPlugin(
      ledger,
      ({ claims }) => Object.values(claims).filter(({ phase }) => phase === "published").length,
    ),
  });
  metrics.gauge({
    name: "holdfast_halted_volumes",
    help: "Volumes that cannot go on now, or whose mounts do not answer.",
    labels: ["reason"],
    collect(gauge) {
      const counts = new Map<string, number>();
      for (const { reason } of volumes.halts().values()) counts.set(reason, (counts.get(reason) ?? 0) + 1);
      for (const [reason, count] of counts) gauge.set({ reason }, count);
    },
  });
  metrics.gauge({
    name: "holdfast_lost_publications",
    help: "Publications that vanished or died and are not back yet.",
    collect: (gauge) => gauge.set({}, lost().length),
  });

  const counted = async <T extends Result>(plugin: string, operation: Operation, act: () => Promise<T>): Promise<T> => {
    const key = `${operation} ${plugin}`;
    const mine = open.get(key) ?? { plugin, operation, count: 0 };
    open.set(key, mine);
    mine.count += 1;
    const started = clock.monotonic();
    let code = "ERROR";
    try {
      const result = await act();
      code = codeOf(result);
      return result;
    } finally {
      mine.count -= 1;
      orders.observe({ plugin, operation, code }, (clock.monotonic() - started) / 1000);
    }
  };

  return {
    ...volumes,
    publish: (order, caller) => counted(order.ref.plugin, "publish", () => volumes.publish(order, caller)),
    release: (order, caller) => counted(order.ref.plugin, "release", () => volumes.release(order, caller)),
    expand: (order, caller) => counted(order.ref.plugin, "expand", () => volumes.expand(order, caller)),
  };
}

/** What to collect for a gauge that counts the volumes of each plugin. */
function byPlugin(
  ledger: Pick<Ledger, "volumes">,
  countOf: (volume: ReturnType<Ledger["volumes"]> extends Iterable<infer V> ? V : never) => number,
) {
  return (gauge: GaugeMetric<"plugin">): void => {
    const counts = new Map<string, number>();
    for (const volume of ledger.volumes()) {
      const { plugin } = volume.ref;
      counts.set(plugin, (counts.get(plugin) ?? 0) + countOf(volume));
    }
    for (const [plugin, count] of counts) gauge.set({ plugin }, count);
  };
}

/** One of a small set of words: reasons and gRPC codes, never what a plugin said. */
function codeOf(result: Result): string {
  switch (result.kind) {
    case "published":
    case "released":
    case "expanded":
      return "OK";
    case "refused":
      return result.reason;
    case "not-mounted":
    case "not-expanded":
      return result.failure.reason;
    case "uncertain":
    case "pending":
      return result.halt.reason;
  }
}
