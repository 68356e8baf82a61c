/** Lines of HOLDFAST_TOKEN_KEYS. */
import { generateKeyPairSync } from "node:crypto";

export const tokenKeyLine = (id: string, kind: "ec" | "rsa" | "p384" | "short" = "ec"): string => {
  const { privateKey } =
    kind === "ec" || kind === "p384"
      ? generateKeyPairSync("ec", { namedCurve: kind === "ec" ? "prime256v1" : "secp384r1" })
      : generateKeyPairSync("rsa", { modulusLength: kind === "rsa" ? 2048 : 1024 });
  return `${id} ${privateKey.export({ format: "der", type: "pkcs8" }).toString("base64")}`;
};
