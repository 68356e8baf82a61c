/** The foreign images of the Dockerfile and the compose file: each may be named by a digest, and a release takes no other name. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { composeImage } from "../support/compose-image.ts";
import { jaegerVersion } from "../support/jaeger.ts";
import { prometheusVersion } from "../support/prometheus.ts";

interface Service {
  readonly build?: object;
  readonly image?: string;
}

const root = path.resolve(import.meta.dirname, "../..");
const read = (file: string): string => readFileSync(path.join(root, file), "utf8");

const variables = ["NODE", "REDIS", "JAEGER", "PROMETHEUS", "GRAFANA"].map((name) => `HOLDFAST_IMAGE_${name}`);
const images = (env: Readonly<Record<string, string>>, ...args: readonly string[]) =>
  spawnSync(process.execPath, [path.join(root, "scripts/images.mjs"), ...args], { encoding: "utf8", env });
const byDigest = (variable: string): string => `registry.example/${variable.toLowerCase()}:1@sha256:${"0a".repeat(32)}`;
const allByDigest = Object.fromEntries(variables.map((variable) => [variable, byDigest(variable)]));

describe("foreign images", () => {
  test("are named by variables alone, with one default each", () => {
    const stages = [...read("Dockerfile").matchAll(/^FROM (?:--platform=\S+ )?(\S+) AS (\S+)$/gm)];
    const own = stages.map(([, , stage]) => stage);
    const foreign = stages.flatMap(([, from = ""]) => (own.includes(from) ? [] : [from]));
    expect([...new Set(foreign)]).toEqual([`$\{HOLDFAST_IMAGE_NODE}`]);
    const compose = read("docker-compose.yml");
    const services = Object.values<Service>(parse(compose, { merge: true }).services);
    // What is built here may have a name of ours.
    for (const { build, image } of services) if (build === undefined) expect(image).toMatch(/^\$\{HOLDFAST_IMAGE_/);
    const [, fallback = ""] = /^ARG HOLDFAST_IMAGE_NODE=(\S+)$/m.exec(read("Dockerfile")) ?? [];
    expect(compose).toContain(`"\${HOLDFAST_IMAGE_NODE:-${fallback}}"`);
  });

  test("Jaeger and Prometheus that tests build are of the versions that the compose file starts", async () => {
    expect(await composeImage("JAEGER")).toBe(`jaegertracing/jaeger:${jaegerVersion}`);
    expect(await composeImage("PROMETHEUS")).toBe(`prom/prometheus:v${prometheusVersion}`);
  });

  test("are listed with how each is held", () => {
    const { status, stdout } = images({ HOLDFAST_IMAGE_REDIS: byDigest("redis") });
    expect(status).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    expect(lines.map((line) => /^(?:digest|tag {3}) {2}([A-Z_]+)=/.exec(line)?.[1])).toEqual(variables);
    expect(lines.filter((line) => line.startsWith("digest"))).toEqual([
      `digest  HOLDFAST_IMAGE_REDIS=${byDigest("redis")}`,
    ]);
  });

  test("are refused for a release by a tag, or by half a digest, each with what to do", () => {
    expect(images(allByDigest, "--release").status).toBe(0);
    const half = images({ ...allByDigest, HOLDFAST_IMAGE_REDIS: "redis:8@sha256:0a0a" }, "--release");
    expect(half.status).toBe(1);
    expect(half.stderr.match(/^ {2}HOLDFAST_IMAGE_\w+=redis:8@\$\(docker buildx .*$/gm)).toHaveLength(1);
    expect(half.stderr.match(/HOLDFAST_IMAGE_/g)).toHaveLength(1);
    expect(images({}, "--release").stderr.match(/HOLDFAST_IMAGE_/g)).toHaveLength(variables.length);
  });
});
