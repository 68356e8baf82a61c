/** Bytes of one message, both ways. */
export const defaultMaxMessageBytes = 1024 * 1024;
/** For plugin channels and Relay: plugins list what they have in one message. */
export const pluginMaxMessageBytes = 16 * 1024 * 1024;
