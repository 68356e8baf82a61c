/**
 * node fleet-main.ts CONTROLLERS AGENTS CLAIMS: so many agents in one process, each with so many held claims of its own and a stream to each
 * controller. Prints `linked` with the time that the storm took; from then on 1 % of the agents tell in a minute that a plugin has changed.
 */
import { performance } from "node:perf_hooks";
import type { ToAgent } from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { nodeName } from "./scale-load.ts";
import { answerTo, helloOf, inventoryOf, registrationOf, reportOf } from "./support/fleet-agent.ts";
import { openRawStream, type RawStream } from "./support/raw-stream.ts";

const [controllers = "", wanted = "0", claims = "0"] = process.argv.slice(2);
const count = Number(wanted);
const fleet = { agents: count, claims: Number(claims) };
const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

interface Line {
  readonly index: number;
  readonly controller: string;
  stream: RawStream | undefined;
  /** The last number of a call and of the fingerprints, which rise together here. */
  told: number;
}

const lines: readonly Line[] = Array.from({ length: count }, (_, index) => index).flatMap((index) =>
  controllers.split(",").map((controller) => ({ index, controller, stream: undefined, told: 1 })),
);
const main = async (): Promise<void> => {
  const linked = new Set<Line>();
  let retried = 0;
  let failed = 0;
  const begun = performance.now();

  const fail = (why: string): void => {
    failed += 1;
    if (failed <= 5) process.stderr.write(`${why}\n`);
  };

  const start = (line: Line): void => {
    const { index, controller } = line;
    const node = nodeName(index);
    const onFrame = ({ order, reply }: ToAgent, stream: RawStream): void => {
      if (reply?.register !== undefined && !linked.has(line)) {
        linked.add(line);
        if (linked.size === lines.length) say({ message: "linked", ms: performance.now() - begun, retried });
      }
      if (reply?.head !== undefined && reply.head.failure.length > 0)
        fail(`${node}: ${Buffer.from(reply.head.failure).toString("latin1")}`);
      if (order === undefined) return;
      const answer = answerTo(order);
      if (answer !== undefined) stream.send(answer);
      if (order.inventory !== undefined) stream.transfer(order.head?.seq ?? 0n, inventoryOf(node, index, fleet));
    };
    const onEnd = (why: string): void => {
      if (why === "closed") return;
      // As an agent does: again, after a moment.
      retried += 1;
      setTimeout(() => start(line), 200 + Math.random() * 800);
    };
    line.told = 1;
    line.stream = openRawStream(controller, node, onFrame, onEnd);
    line.stream.send(helloOf(node));
    line.stream.send(registrationOf(node, index, 1));
  };

  // As fast as a process can dial; what the controller takes of it a second is its own affair.
  const batch = 100;
  for (let from = 0; from < lines.length; from += batch) {
    for (const line of lines.slice(from, from + batch)) start(line);
    await new Promise((resolve) => setImmediate(resolve));
  }

  const changesPerMinute = Math.max(1, lines.length / 100);
  const changes = setInterval(() => {
    const line = lines[Math.floor(Math.random() * lines.length)];
    if (line === undefined || linked.size < lines.length) return;
    line.told += 1;
    line.stream?.send(reportOf(nodeName(line.index), line.index, line.told, line.told));
  }, 60_000 / changesPerMinute);

  process.once("SIGTERM", () => {
    clearInterval(changes);
    for (const { stream } of lines) stream?.close();
    process.exit(0);
  });
};

await main();
