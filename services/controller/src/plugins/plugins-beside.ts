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
  /** Asked with each grant that is thought of: in order, and made anew only with a new one. */
  let names: readonly string[] = [];
  const listeners = createEmitter();
  const look = (): void => {
    const found = controllerInstances(directory)
      .filter(({ plugin }) => plugin.capabilities["controller:PUBLISH_UNPUBLISH_VOLUME"] !== "no")
      .map(({ plugin }) => plugin.name);
    const all = [...new Set([...names, ...found])].sort();
    if (all.length === names.length) return;
    names = all;
    listeners.tell();
  };
  directory.onChange(look);
  look();
  return { names: () => names, onNew: listeners.on };
};
