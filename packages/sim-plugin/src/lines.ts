import type { Socket } from "node:net";

/** Calls back for each whole line of a socket, and keeps the rest for the next chunk. */
export const onLine = (socket: Socket, take: (line: string) => void): void => {
  let rest = "";
  socket.setEncoding("utf8");
  socket.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) take(line);
  });
};
