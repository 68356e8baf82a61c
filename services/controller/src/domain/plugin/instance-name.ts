/** The names of plugin instances, as intents and bars have them: the socket beside a controller, or the node that an instance runs on. */

export const nameOnNode = (plugin: string, node: string): string => `node ${node}: ${plugin}`;

/** The node of an instance; undefined = it is a socket beside a controller. */
export const nodeOfName = (via: string): string | undefined => /^node (.*?): /.exec(via)?.[1];

export const isOnNode = (via: string): boolean => nodeOfName(via) !== undefined;
