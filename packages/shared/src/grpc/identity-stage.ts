import type { CallStage } from "./call-stage.ts";
import type { IdentityContext, IdentityReader } from "./identity.ts";

export function identityStage(read: IdentityReader): CallStage {
  return (_method, context) => {
    Object.assign(context, { identity: read(context) } satisfies IdentityContext);
    return undefined;
  };
}
