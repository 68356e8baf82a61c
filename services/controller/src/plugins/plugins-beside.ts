/**
 * The plugins whose ControllerPublish and ControllerUnpublish this controller calls, or has called, in sockets beside it: a socket that went
 * may still have a call in it. What else a controller half is called for takes nothing from a node.
 */
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import { createEmitter } from "@holdfast/shared/async/emitter";
import { controllerInstances } from "./controller-instances.ts";

export interface PluginsBeside {
  names(): readonly string[];
  onNew(listener: () => void): () => void;
}

export const createPluginsBeside = (directory: Pick<PluginDirectory, "list" | "onChange">): PluginsBeside => {
  const names = new Set<string>();
  const listeners = createEmitter();
  const look = (): void => {
    const before = names.size;
    for (const { plugin } of controllerInstances(directory))
      if (plugin.capabilities["controller:PUBLISH_UNPUBLISH_VOLUME"] !== "no") names.add(plugin.name);
    if (names.size > before) listeners.tell();
  };
  directory.onChange(look);
  look();
  return { names: () => [...names].sort(), onNew: listeners.on };
};
