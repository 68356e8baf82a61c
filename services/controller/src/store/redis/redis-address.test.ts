import { describe, expect, it } from "vitest";
import { parseRedisAddress } from "./redis-address.ts";

const wrong = (url: string): readonly string[] => {
  try {
    parseRedisAddress(url);
    return [];
  } catch (error) {
    expect((error as Error).message).not.toContain("hunter2");
    return (error as { violations: readonly { description: string }[] }).violations.map((it) => it.description);
  }
};

describe("the address of a Redis", () => {
  it("names one server, its user and its database", () => {
    expect(parseRedisAddress("rediss://u%40x:p%2Fw@[::1]:7000/3")).toEqual({
      kind: "server",
      place: { host: "::1", port: 7000 },
      username: "u@x",
      password: "p/w",
      db: 3,
      tls: true,
      shown: "rediss://[::1]:7000/3",
    });
    expect(parseRedisAddress("redis://h")).toMatchObject({
      place: { host: "h", port: 6379 },
      username: undefined,
      password: undefined,
      shown: "redis://h:6379/0",
    });
    expect(parseRedisAddress("redis://:pw@h/")).toMatchObject({ username: undefined, password: "pw" });
  });

  it("names sentinels, and what they call the master", () => {
    expect(parseRedisAddress("redis+sentinel://u:p@s1,s2:1,[::2]/main/2")).toEqual({
      kind: "sentinel",
      places: [
        { host: "s1", port: 26_379 },
        { host: "s2", port: 1 },
        { host: "::2", port: 26_379 },
      ],
      master: "main",
      username: "u",
      password: "p",
      db: 2,
      tls: false,
      shown: "redis+sentinel://s1:26379,s2:1,[::2]:26379/main/2",
    });
  });

  it("names nodes of a cluster, which has one database", () => {
    expect(parseRedisAddress("rediss+cluster://u:p@n1,n2:1,[::2]:2")).toEqual({
      kind: "cluster",
      places: [
        { host: "n1", port: 6379 },
        { host: "n2", port: 1 },
        { host: "::2", port: 2 },
      ],
      username: "u",
      password: "p",
      db: 0,
      tls: true,
      shown: "rediss+cluster://n1:6379,n2:1,[::2]:2",
    });
    expect(parseRedisAddress("redis+cluster://n1/0")).toMatchObject({ shown: "redis+cluster://n1:6379", tls: false });
    expect(wrong("redis+cluster://u:hunter2@a:b,c/3")).toEqual([
      expect.stringContaining("host 1 of 2"),
      expect.stringContaining("another database than 0"),
    ]);
    expect(wrong("redis+cluster://a/main")).toEqual([expect.stringContaining("no number of a database")]);
  });

  it("is refused with all that is wrong with it, and never shown", () => {
    for (const odd of ["http://h", "redis://", "redis://u:hunter2@", "redis+other://h", "redis://h?x=hunter2"])
      expect(wrong(odd), odd).toHaveLength(1);
    expect(wrong("redis://u:hunter2@h:99999")).toEqual([expect.stringContaining("host 1 of 1")]);
    expect(wrong("redis+sentinel://%zz:hunter2@a:b,c/hunter2!/x")).toEqual([
      expect.stringContaining("host 1 of 2"),
      expect.stringContaining("no name of a master"),
      expect.stringContaining("no number of a database"),
      expect.stringContaining("not percent-encoded"),
    ]);
    expect(wrong("redis://a,b")).toEqual([expect.stringContaining("redis+sentinel://")]);
    expect(wrong("redis+sentinel://a:1")).toEqual([expect.stringContaining("no name of a master")]);
  });
});
