/** The settings of identity tokens. */
import { optional, pathSetting, stringSetting, tcpAddressSetting } from "@holdfast/shared/config/setting";

export const tokenSettings = {
  tokenKeys: optional(
    pathSetting({
      env: "HOLDFAST_TOKEN_KEYS",
      doc: "File of the keys that identity tokens are signed with: one '<id> <private key>' a line, the key as base64 of its PKCS#8 DER. The first signs, ES256 with a key on P-256, RS256 with one of RSA; all are published.",
    }),
  ),
  tokenIssuer: optional(
    stringSetting({
      env: "HOLDFAST_TOKEN_ISSUER",
      doc: "Who issues identity tokens: the https URL below which /.well-known/openid-configuration is found. The same for every controller.",
      pattern: /^https:\/\/[A-Za-z0-9.-]+(:\d{1,5})?(\/[A-Za-z0-9._~-]+)*$/,
      hint: "has to be https://host, with a port and a path where it has them, and without a slash at its end",
    }),
  ),
  discoveryListen: optional(
    tcpAddressSetting({
      env: "HOLDFAST_OIDC_LISTEN",
      doc: "Address of /.well-known/openid-configuration and of the public keys of identity tokens, and of nothing else. Without it they are not served.",
    }),
  ),
};
