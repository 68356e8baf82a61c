/**
 * Asks a program of the operator, or a service, to make sure that a machine is off.
 *
 * FE1 Evidence is one answer alone: `{"fenced": true, "evidence": "…"}`, of a program that ended with 0, or with status 200. Everything
 *     else is none: another answer, a failure, silence.
 * FE2 It is given a time, and ended when that is over; what it says later is not heard. It runs without a shell, and without this
 *     process's environment.
 * FE3 A redirect is not followed: the word of another server is nobody's.
 */
import { spawn } from "node:child_process";
import { bareEnvironment } from "@holdfast/shared/bare-environment";
import type { FencerAnswer, FencerAsk } from "../domain/node/fencer.ts";
import type { Fencer } from "../ports.ts";

const maxAnswerBytes = 16_384;
const maxEvidence = 512;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it takes out.
const control = /[\u0000-\u001f\u007f]+/g;

const failed = (why: string): FencerAnswer => ({
  kind: "failed",
  why: why.replaceAll(control, " ").trim().slice(0, maxEvidence),
});

const field = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;

/** FE1 */
const readAnswer = (text: string): FencerAnswer => {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    return failed(`its answer is no JSON: ${text.slice(0, 200)}`);
  }
  const evidence = field(answer, "evidence");
  const said = typeof evidence === "string" ? evidence.replaceAll(control, " ").trim().slice(0, maxEvidence) : "";
  if (field(answer, "fenced") !== true) return failed(said === "" ? "it did not fence the machine" : said);
  return said === "" ? failed("it gave no evidence") : { kind: "fenced", evidence: said };
};

const messageOf = ({ node, machineId, bootId, nodeEpoch }: FencerAsk): string =>
  JSON.stringify({ node, machine_id: machineId, boot_id: bootId, node_epoch: nodeEpoch });

const runProgram = (file: string, input: string, signal: AbortSignal): Promise<FencerAnswer> =>
  new Promise((resolve) => {
    const child = spawn(file, [], {
      env: bareEnvironment,
      stdio: ["pipe", "pipe", "pipe"],
    });
    let [said, complained] = ["", ""];
    /** FE2: also when a program that it started keeps its output open. */
    const end = (): void => {
      child.kill("SIGKILL");
      child.stdout.destroy();
      child.stderr.destroy();
    };
    const answer = (found: FencerAnswer): void => {
      signal.removeEventListener("abort", end);
      resolve(signal.aborted ? failed("no answer in time") : found);
    };
    signal.addEventListener("abort", end, { once: true });
    child.stdout.on("data", (part: Buffer) => {
      said = (said + part.toString("utf8")).slice(0, maxAnswerBytes + 1);
    });
    child.stderr.on("data", (part: Buffer) => {
      complained = (complained + part.toString("utf8")).slice(0, maxEvidence);
    });
    child.stdin.on("error", () => undefined); // one that does not read what it is told may know all the same
    child.on("error", (error) => answer(failed(`it cannot be run: ${error.message}`)));
    child.on("close", (code, by) => {
      if (code !== 0) answer(failed(`it ended with ${code ?? by}: ${complained || said.slice(0, maxEvidence)}`));
      else answer(said.length > maxAnswerBytes ? failed("its answer is too long") : readAnswer(said));
    });
    child.stdin.end(input);
  });

const askService = async (url: string, body: string, signal: AbortSignal): Promise<FencerAnswer> => {
  try {
    const headers = { "content-type": "application/json" };
    const response = await fetch(url, { method: "POST", headers, body, signal, redirect: "error" }); // FE3
    const text = await response.text();
    if (response.status !== 200) return failed(`status ${response.status}: ${text.slice(0, maxEvidence)}`);
    return text.length > maxAnswerBytes ? failed("its answer is too long") : readAnswer(text);
  } catch (error) {
    return failed(signal.aborted ? "no answer in time" : `it cannot be reached: ${String(error)}`);
  }
};

export interface FencerOptions {
  /** An absolute path of a program, or http(s)://… */
  readonly target: string;
  readonly timeoutMs: number;
}

export const createFencer = ({ target, timeoutMs }: FencerOptions): Fencer => ({
  ask(life, signal) {
    const within = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]); // FE2
    const text = messageOf(life);
    return target.startsWith("/") ? runProgram(target, text, within) : askService(target, text, within);
  },
});
