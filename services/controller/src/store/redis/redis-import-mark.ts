import { type ImportMark, importingSchema } from "../import-mark.ts";
import type { RedisKeys } from "./redis-keys.ts";

type Ask = (command: string, ...args: readonly (string | number)[]) => Promise<unknown>;

/** Fields of `meta`. */
export const createRedisImportMark = ({ meta }: RedisKeys, ask: Ask): ImportMark => ({
  async begun() {
    const [schema, digest] = (await ask("HMGET", meta, "schema", "importing")) as readonly (string | null)[];
    return Number(schema) === importingSchema ? (digest ?? "") : undefined;
  },
  begin: async (digest) => void (await ask("HSET", meta, "schema", importingSchema, "importing", digest)),
  finish: async (format) => void (await ask("HSET", meta, "schema", format, "importing", "")),
});
