import type { IdentityDefinition } from "@holdfast/shared/gen/csi/v1/csi";
import type { Implementation } from "@holdfast/shared/grpc/call-context";
import { DriverError } from "../domain/driver-error.ts";
import type { DriverSettings } from "../operations.ts";
import type { Space } from "../ports.ts";
import { pluginCapabilities } from "./capabilities.ts";

export interface IdentityParts {
  readonly settings: DriverSettings;
  readonly space: Pick<Space, "freeBytes">;
  /** Whether what an earlier life left has been seen to. */
  readonly ready: () => boolean;
}

export const createIdentityService = ({
  settings,
  space,
  ready,
}: IdentityParts): Implementation<typeof IdentityDefinition> => ({
  getPluginInfo: async () => ({ name: settings.name, vendorVersion: settings.version, manifest: {} }),
  getPluginCapabilities: async () => ({ capabilities: pluginCapabilities(settings) }),
  // "FAILED_PRECONDITION: Plugin is in a bad/unhealthy state": without its disk this one can do nothing.
  probe: async () => {
    try {
      await space.freeBytes();
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new DriverError("FAILED_PRECONDITION", `the state directory of node ${settings.nodeId}: ${why}`, { cause });
    }
    return { ready: ready() };
  },
});
