import { spawn } from "node:child_process";
import { EventEmitter } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { ConfigError } from "./config/config-error.ts";
import { createLifecycle, type ProcessPort, runUntilSignal } from "./lifecycle.ts";
import { createMemoryLogger } from "./log/logger.ts";

describe("createLifecycle", () => {
  test("stops what it started, the last first, once", async () => {
    const life = createLifecycle({ log: createMemoryLogger() });
    const seen: string[] = [];
    for (const name of ["a", "b", "c"]) {
      await life.start(name, () => {
        seen.push(`+${name}`);
        return () => {
          seen.push(`-${name}`);
        };
      });
    }
    await Promise.all([life.stop(), life.stop()]);
    await life.stop();
    expect(seen).toEqual(["+a", "+b", "+c", "-c", "-b", "-a"]);
    expect(life.signal.aborted).toBe(true);
    await expect(life.start("d", () => undefined)).rejects.toThrow("stopping");
  });

  test("every stop() waits for the end, not only the first", async () => {
    const life = createLifecycle({ log: createMemoryLogger() });
    let finish: () => void = () => undefined;
    await life.start("slow", () => () => new Promise<void>((resolve) => (finish = resolve)));
    const first = life.stop();
    let ended = false;
    const second = life.stop().then(() => {
      ended = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(ended).toBe(false);
    finish();
    await Promise.all([first, second]);
    expect(ended).toBe(true);
  });

  test("a part that hangs or fails at its end does not spare the others", async () => {
    const log = createMemoryLogger();
    const life = createLifecycle({ log, stopTimeoutMs: 20 });
    let stopped = false;
    await life.start("first", () => () => {
      stopped = true;
    });
    await life.start("hangs", () => () => new Promise<void>(() => undefined));
    await life.start("fails", () => () => {
      throw new Error("stop");
    });
    await life.stop();
    expect(stopped).toBe(true);
    expect(log.lines.map(({ fields }) => fields["part"])).toEqual(["fails", "hangs"]);
  });

  test("a failed start stops what ran before it", async () => {
    const life = createLifecycle({ log: createMemoryLogger() });
    let stopped = 0;
    await life.start("a", () => () => {
      stopped += 1;
    });
    const starting = life.start("b", () => {
      throw new Error("no port");
    });
    await expect(starting).rejects.toThrow("no port");
    expect(stopped).toBe(1);
  });

  test("a part whose start was overtaken by the end is stopped too", async () => {
    const life = createLifecycle({ log: createMemoryLogger() });
    let finish: () => void = () => undefined;
    let stopped = false;
    const starting = life.start("slow", async () => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      return () => {
        stopped = true;
      };
    });
    const outcome = expect(starting).rejects.toThrow("stopping");
    await life.stop();
    finish();
    await outcome;
    expect(stopped).toBe(true);
  });
});

function fakeProcess() {
  const events = new EventEmitter();
  const exits: number[] = [];
  const first = createMemoryLogger();
  const proc: ProcessPort = {
    on: (event, listener) => events.on(event, listener),
    off: (event, listener) => events.off(event, listener),
    exit: (code) => exits.push(code),
  };
  return { events, exits, first, proc };
}

describe("runUntilSignal", () => {
  test("stops at the first signal and takes its listeners away", async () => {
    const { events, exits, first, proc } = fakeProcess();
    let stopped = false;
    const run = runUntilSignal(
      first,
      async () => ({
        stop: async () => {
          stopped = true;
        },
      }),
      proc,
    );
    events.emit("SIGTERM");
    await run;
    expect([stopped, exits]).toEqual([true, [0]]);
    expect(events.eventNames()).toEqual([]);
  });

  test("a second signal ends it at once, even while it hangs", async () => {
    const { events, exits, first, proc } = fakeProcess();
    void runUntilSignal(first, async () => () => new Promise<void>(() => undefined), proc);
    events.emit("SIGINT");
    await new Promise((resolve) => setImmediate(resolve));
    expect(exits).toEqual([]);
    events.emit("SIGINT");
    expect(exits).toEqual([130]);
  });

  test("a signal while starting aborts the start, which is no fault", async () => {
    const { events, exits, first, proc } = fakeProcess();
    const run = runUntilSignal(
      first,
      (signal) => new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      proc,
    );
    events.emit("SIGTERM");
    await run;
    expect([exits, first.lines]).toEqual([[0], []]);
  });

  test("a start that fails is one line, and ends with the exit code of its reason", async () => {
    const { exits, first, proc } = fakeProcess();
    await runUntilSignal(
      first,
      async () => {
        throw new ConfigError([{ field: "HOLDFAST_X", description: "is not set" }]);
      },
      proc,
    );
    expect(exits).toEqual([78]);
    const errors = first.lines.filter(({ level }) => level === "error");
    expect(errors).toEqual([
      {
        level: "error",
        message: "the service does not start: the settings have one mistake: HOLDFAST_X is not set",
        fields: expect.objectContaining({ reason: "CONFIG_INVALID", settings: ["HOLDFAST_X"], exit_code: 78 }),
      },
    ]);
  });

  test("faults are logged and end with 70", async () => {
    const log = createMemoryLogger();
    const { events, exits, first, proc } = fakeProcess();
    void runUntilSignal(first, async (_signal, { setLogger }) => setLogger(log), proc);
    await new Promise((resolve) => setImmediate(resolve));
    events.emit("uncaughtException", new TypeError("oops"));
    expect(exits).toEqual([70]);
    expect(log.lines[0]).toMatchObject({ level: "error", fields: { error: { name: "TypeError", message: "oops" } } });
  });
});

test("a real process ends as it should", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "holdfast-life-"));
  try {
    const script = path.join(directory, "main.mjs");
    const [lifecycle, logger] = ["lifecycle.ts", "log/logger.ts"].map((file) => new URL(file, import.meta.url).href);
    await writeFile(
      script,
      `import { runUntilSignal } from ${JSON.stringify(lifecycle)};
       import { createLogger } from ${JSON.stringify(logger)};
       await runUntilSignal(createLogger({ level: "info" }), async () => { setInterval(() => {}, 1000); console.log("up"); return () => console.log("down"); });`,
    );
    const child = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      if (output === "up\n") child.kill("SIGTERM");
    });
    const code = await new Promise((resolve) => child.once("close", resolve));
    expect([code, output]).toEqual([0, "up\ndown\n"]);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
