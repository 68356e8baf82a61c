import { expect, test, vi } from "vitest";
import { createEmitter } from "./emitter.ts";

test("tells all listeners in the order of their coming, until they leave or all are cleared", () => {
  const changed = createEmitter<[plugin: string, node: string]>();
  const told: string[] = [];
  const leave = changed.on((plugin, node) => void told.push(`first ${plugin} ${node}`));
  changed.on((plugin) => void told.push(`second ${plugin}`));
  changed.tell("a", "n1");
  leave();
  leave();
  changed.tell("b", "n2");
  changed.clear();
  changed.tell("c", "n3");
  expect(told).toEqual(["first a n1", "second a", "second b"]);
});

test("E1 a listener that comes during a tell hears the next, and one that leaves during a tell hears this one", () => {
  const changed = createEmitter<[number]>();
  const told: string[] = [];
  const late = (n: number): void => void told.push(`late ${n}`);
  changed.on(() => {
    leave();
    changed.on(late);
  });
  const leave = changed.on((n) => void told.push(`leaving ${n}`));
  changed.tell(1);
  changed.tell(2);
  expect(told).toEqual(["leaving 1", "late 2"]);
});

test("E1 a tell within a tell ends before the outer tell goes on", () => {
  const changed = createEmitter<[number]>();
  const told: number[] = [];
  changed.on((n) => void (n < 2 && changed.tell(n + 1)));
  changed.on((n) => void told.push(n));
  changed.tell(1);
  expect(told).toEqual([2, 1]);
});

test("E2 an error of a listener reaches the teller, and the listeners behind it are not told", () => {
  const changed = createEmitter();
  const behind = vi.fn();
  const leave = changed.on(() => {
    throw new Error("a listener failed");
  });
  changed.on(behind);
  expect(() => changed.tell()).toThrow("a listener failed");
  expect(behind).not.toHaveBeenCalled();
  leave();
  changed.tell();
  expect(behind).toHaveBeenCalledOnce();
});

test("E3 a function that was handed in twice is told once and leaves for good", () => {
  const changed = createEmitter();
  const listener = vi.fn();
  const leave = changed.on(listener);
  changed.on(listener);
  changed.tell();
  expect(listener).toHaveBeenCalledOnce();
  leave();
  changed.tell();
  expect(listener).toHaveBeenCalledOnce();
});
