import { mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { createKernelThreads } from "./kernel-threads.ts";

interface Task {
  readonly pid: number;
  readonly started: number;
  readonly thread: boolean;
  readonly ns: string;
}

const home = "mnt:[1]";
const thread = (pid: number, started: number, ns = home): Task => ({ pid, started, thread: true, ns });
const program = (pid: number, started: number, ns = home): Task => ({ pid, started, thread: false, ns });

const statOf = ({ pid, started, thread: kernel }: Task): string =>
  `${pid} (a) b (c) S 2 0 0 0 -1 ${kernel ? 0x208040 : 0x400100} ${"0 ".repeat(12)}${started} 0\n`;

/** A /proc in which kthreadd has these children, in the order of their births. */
const fakeProc = (kthreadd: Task = thread(2, 0)) => {
  const dir = mkdtempSync(path.join(tmpdir(), "hf-threads-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const write = (task: Task): void => {
    rmSync(path.join(dir, String(task.pid), "ns"), { recursive: true, force: true });
    mkdirSync(path.join(dir, String(task.pid), "ns"), { recursive: true });
    writeFileSync(path.join(dir, String(task.pid), "stat"), statOf(task));
    symlinkSync(task.ns, path.join(dir, String(task.pid), "ns/mnt"));
  };
  write(kthreadd);
  mkdirSync(path.join(dir, "2/task/2"), { recursive: true });
  const list = path.join(dir, "2/task/2/children");
  writeFileSync(list, "");
  let alive: readonly Task[] = [];
  return {
    dir,
    become(children: readonly Task[]) {
      for (const { pid } of alive) rmSync(path.join(dir, String(pid)), { recursive: true, force: true });
      for (const child of children) write(child);
      writeFileSync(list, children.map(({ pid }) => `${pid} `).join(""));
      alive = children;
    },
    /** They are in no list of children any more, as if they had ended between two reads. */
    vanish: (pid: number) => rmSync(path.join(dir, String(pid)), { recursive: true, force: true }),
  };
};

const opened = (dir: string) => {
  const threads = createKernelThreads(dir);
  onTestFinished(() => threads.close());
  return threads;
};
const within = (threads: ReturnType<typeof createKernelThreads>, ns = home): number[] =>
  [...threads.within(ns)].map(Number).sort((a, b) => a - b);

test("[I2] threads of the kernel in that namespace, and neither helpers that it started nor threads elsewhere", () => {
  const { dir, become } = fakeProc();
  become([thread(3, 1), thread(4, 1, "mnt:[9]"), program(5, 2), thread(6, 3)]);
  const threads = opened(dir);
  expect(within(threads)).toEqual([3, 6]);
  expect(within(threads, "mnt:[9]")).toEqual([4]);
  expect(within(threads)).toEqual([3, 6]);
});

test.each<[string, readonly Task[], readonly number[]]>([
  ["of the youngest", [thread(3, 1), thread(4, 2), program(5, 9)], [3, 4]],
  ["of one in between", [thread(3, 1), thread(5, 3), program(4, 9)], [3, 5]],
  ["of all", [program(3, 8), program(4, 9), program(5, 9)], []],
  ["of the two youngest, in their order", [thread(3, 1), program(4, 9), program(5, 9)], [3]],
  [
    "of the first, and threads that came after it",
    [thread(4, 2), thread(5, 3), program(3, 9), thread(7, 9)],
    [4, 5, 7],
  ],
  ["by a thread in another namespace", [thread(3, 1), thread(4, 2), thread(5, 9, "mnt:[9]")], [3, 4]],
])("[I2] a number that was given anew is looked at anew: %s", (_, after, passed) => {
  const { dir, become } = fakeProc();
  become([thread(3, 1), thread(4, 2), thread(5, 3)]);
  const threads = opened(dir);
  expect(within(threads)).toEqual([3, 4, 5]);
  become(after);
  expect(within(threads)).toEqual(passed);
});

test("who ends while it is looked at is passed over by nobody, and hides nobody", () => {
  const { dir, become, vanish } = fakeProc();
  become([thread(3, 1), thread(4, 2), thread(5, 3)]);
  vanish(4);
  const threads = opened(dir);
  expect(within(threads)).toEqual([3, 5]);
  become([thread(3, 1), thread(5, 3), thread(6, 4)]);
  expect(within(threads)).toEqual([3, 5, 6]);
});

test("nobody is passed over where process 2 is no thread of the kernel, or its children are not told", () => {
  const inside = fakeProc(program(2, 0));
  inside.become([thread(3, 1)]);
  expect(within(opened(inside.dir))).toEqual([]);
  const untold = fakeProc();
  untold.become([thread(3, 1)]);
  rmSync(path.join(untold.dir, "2/task"), { recursive: true });
  expect(within(opened(untold.dir))).toEqual([]);
});

test("[I2] whatever is born, ends and takes over numbers: exactly the threads that are there", () => {
  const births = fc.record({
    pid: fc.integer({ min: 3, max: 9 }),
    kernel: fc.boolean(),
    ns: fc.constantFrom(home, "mnt:[9]"),
  });
  const steps = fc.array(
    fc.record({ ends: fc.array(fc.nat({ max: 8 }), { maxLength: 4 }), births: fc.array(births) }),
    {
      minLength: 1,
      maxLength: 8,
    },
  );
  fc.assert(
    fc.property(steps, (all) => {
      const { dir, become } = fakeProc();
      const threads = createKernelThreads(dir);
      try {
        let alive: Task[] = [];
        let now = 0;
        for (const step of all) {
          for (const at of step.ends) alive.splice(at, 1);
          for (const { pid, kernel, ns } of step.births) {
            now += 1;
            if (!alive.some((task) => task.pid === pid)) alive = [...alive, { pid, started: now, thread: kernel, ns }];
          }
          become(alive);
          const wanted = alive.filter((task) => task.thread && task.ns === home).map(({ pid }) => pid);
          expect(within(threads)).toEqual(wanted.sort((a, b) => a - b));
        }
      } finally {
        threads.close();
        rmSync(dir, { recursive: true, force: true });
      }
    }),
    { numRuns: 60 },
  );
});

test("[I2] on this machine: who is passed over runs no program and is where it is said to be", () => {
  const here = readlinkSync("/proc/self/ns/mnt");
  for (const pid of opened("/proc").within(here)) {
    expect(readFileSync(`/proc/${pid}/cmdline`, "utf8"), pid).toBe("");
    expect(readlinkSync(`/proc/${pid}/ns/mnt`), pid).toBe(here);
  }
});
