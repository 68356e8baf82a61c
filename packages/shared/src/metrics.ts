/** Metrics of one service, in a registry of its own: two services in one process (tests, the embedded mode) do not mix. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { holdfastVersion } from "./holdfast-version.ts";

export type Labels<Name extends string> = Readonly<Record<Name, string | number>>;

export interface CounterMetric<Name extends string> {
  inc(labels: Labels<Name>, by?: number): void;
}

export interface HistogramMetric<Name extends string> {
  /** Seconds for durations, bytes for sizes. */
  observe(labels: Labels<Name>, value: number): void;
}

export interface GaugeMetric<Name extends string> {
  set(labels: Labels<Name>, value: number): void;
  remove(labels: Labels<Name>): void;
}

export interface MetricInit<Name extends string> {
  /** Starts with holdfast_. */
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly Name[];
}

export interface Metrics {
  counter<Name extends string = never>(init: MetricInit<Name>): CounterMetric<Name>;
  histogram<Name extends string = never>(
    init: MetricInit<Name> & { readonly buckets?: readonly number[] },
  ): HistogramMetric<Name>;
  /** `collect` is called at each scrape, for values that are queries and not counted along. */
  gauge<Name extends string = never>(
    init: MetricInit<Name> & { readonly collect?: (gauge: GaugeMetric<Name>) => void | Promise<void> },
  ): GaugeMetric<Name>;
  readonly contentType: string;
  text(): Promise<string>;
}

/** From half a millisecond, where our own part lies, to the two minutes that a node call may take. */
export const durationBuckets: readonly number[] = [
  0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120,
];

/** The one name that is not ours: dashboards for CSI ask for it. */
const csiOperations = "csi_operations_seconds";

/** Each sample wakes the process: a hundred a second, the default, is most of what an idle service does. */
const eventLoopSampleMs = 200;

export interface MetricsOptions {
  /** On every metric. */
  readonly labels?: Readonly<Record<string, string>>;
  /** CPU, memory, event loop and garbage collection of this process. */
  readonly process?: boolean;
}

export function createMetrics({ labels = {}, process: withProcess = false }: MetricsOptions = {}): Metrics {
  const registry = new Registry();
  registry.setDefaultLabels(labels);
  if (withProcess) collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: eventLoopSampleMs });

  // A second part that asks for the same metric gets the same: both servers of a service count their calls together.
  const made = new Map<string, unknown>();
  const once = <T>(name: string, make: () => T): T => {
    if (!made.has(name)) made.set(name, make());
    return made.get(name) as T;
  };

  const common = <Name extends string>({ name, help, labels: labelNames = [] }: MetricInit<Name>) => {
    if (!/^holdfast_[a-z0-9_]+$/.test(name) && name !== csiOperations)
      throw new Error(`metric ${name}: has to match holdfast_[a-z0-9_]+`);
    return { name, help, labelNames: [...labelNames], registers: [registry] };
  };

  const metrics: Metrics = {
    counter(init) {
      const counter = once(init.name, () => new Counter(common(init)));
      return { inc: (values, by = 1) => counter.inc({ ...values }, by) };
    },
    histogram(init) {
      const buckets = [...(init.buckets ?? durationBuckets)];
      const histogram = once(init.name, () => new Histogram({ ...common(init), buckets }));
      return { observe: (values, value) => histogram.observe({ ...values }, value) };
    },
    gauge(init) {
      const { collect } = init;
      const gauge: Gauge = once(init.name, () => {
        const own: Gauge = new Gauge({
          ...common(init),
          async collect() {
            if (collect === undefined) return;
            // What is no longer reported must not stay at its last value.
            own.reset();
            await collect(metric);
          },
        });
        return own;
      });
      const metric: GaugeMetric<string> = {
        set: (values, value) => gauge.set({ ...values }, value),
        remove: (values) => gauge.remove({ ...values }),
      };
      return metric;
    },
    contentType: registry.contentType,
    text: () => registry.metrics(),
  };
  if (withProcess)
    metrics.gauge({
      name: "holdfast_build_info",
      help: "1: which release of Holdfast runs.",
      labels: ["version"],
      collect: (gauge) => gauge.set({ version: holdfastVersion }, 1),
    });
  return metrics;
}
