import { describe, expect, it } from "vitest";
import { CallFailure, callFailureOf, isForbidden, isMissingFunction } from "./call-failure.ts";

/** As ioredis makes them: the server's own words, under this name. */
const reply = (message: string): Error => Object.assign(new Error(message), { name: "ReplyError" });

const inside = (message: string): string => `${message} script: holdfast_v3_commit, on @user_function:12.`;

describe("what is known of a command that failed", () => {
  it.each([
    [
      "never left this process",
      new Error("Stream isn't writeable and enableOfflineQueue options is false"),
      "not-sent",
    ],
    ["timed out", new Error("Command timed out"), "unknown"],
    ["lost its connection", new Error("Reached the max retries per request limit (which is 0)."), "unknown"],
    ["lost its client", new Error("Connection is closed."), "unknown"],
    ["was no error at all", "odd", "unknown"],
    ["was refused as a replica's", reply("READONLY You can't write against a read only replica."), "refused"],
    ["was refused for want of memory", reply("OOM command not allowed when used memory > 'maxmemory'."), "refused"],
    ["was refused for want of a right", reply("NOPERM User x has no permissions to run the 'set' command"), "refused"],
    ["was refused for want of the function", reply("ERR Function not found"), "refused"],
    [
      "broke in the middle of a function",
      reply(inside("OOM command not allowed when used memory > 'maxmemory'.")),
      "unknown",
    ],
    ["broke by a fault of the function", reply("ERR user_function:3: attempt to index a nil value"), "unknown"],
  ] as const)("that %s: %s", (_, error, certainty) => {
    const failure = callFailureOf(error);
    expect(failure).toBeInstanceOf(CallFailure);
    expect(failure.certainty).toBe(certainty);
    expect(callFailureOf(failure)).toBe(failure);
  });

  it("names the cure where an operator has one", () => {
    expect(callFailureOf(reply("OOM command not allowed")).message).toBe(
      "OOM command not allowed (raise maxmemory of the store)",
    );
    expect(callFailureOf(reply("ERR whatever")).message).toBe("ERR whatever");
  });

  it("tells a user without the right from a server without the function", () => {
    const denied = callFailureOf(reply("NOPERM User x has no permissions"));
    const within = callFailureOf(
      reply(inside("ERR The user executing the script can't run this command or subcommand")),
    );
    const absent = callFailureOf(reply("ERR unknown command 'CONFIG'"));
    const missing = callFailureOf(reply("ERR Function not found"));
    expect([denied, within, absent, missing].map(isForbidden)).toEqual([true, true, true, false]);
    expect([denied, missing, reply("ERR Function not found")].map(isMissingFunction)).toEqual([false, true, false]);
  });
});
