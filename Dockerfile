# One image per service: docker build --target controller .   (or node-agent, or local-driver)
FROM node:26-slim AS manifests
WORKDIR /app
COPY package.json package-lock.json ./
COPY packages/shared/package.json packages/shared/
COPY packages/csi/package.json packages/csi/
COPY packages/sim-plugin/package.json packages/sim-plugin/
COPY packages/local-driver/package.json packages/local-driver/
COPY services/controller/package.json services/controller/
COPY services/node-agent/package.json services/node-agent/

# The generated code; needs the tools, which no image below carries.
FROM manifests AS generated
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY buf.yaml buf.gen.yaml ./
COPY scripts scripts
COPY proto proto
RUN npm run --silent generate

# Optional packages are tools and a Node binary: the image has its own Node.
FROM manifests AS runtime
ENV NODE_ENV=production
RUN npm ci --ignore-scripts --no-audit --no-fund --omit=dev --omit=optional && npm cache clean --force
COPY packages packages
COPY --from=generated /app/packages/shared/src/gen packages/shared/src/gen

FROM runtime AS controller
COPY services/controller services/controller
RUN mkdir -p /var/lib/holdfast-controller /run/holdfast/controller-plugins \
 && chown node:node /var/lib/holdfast-controller /run/holdfast/controller-plugins
USER node
EXPOSE 7600 7601
CMD ["node", "services/controller/src/main.ts"]

# Root: it makes directories for mounts and reads the mount tables of other processes.
FROM runtime AS node-agent
RUN apt-get update && apt-get install -y --no-install-recommends mount util-linux && rm -rf /var/lib/apt/lists/*
ENV UV_THREADPOOL_SIZE=16
COPY services/node-agent services/node-agent
EXPOSE 7610
CMD ["node", "services/node-agent/src/main.ts"]

# Root: it makes filesystems, loop devices and mounts.
FROM runtime AS local-driver
RUN apt-get update \
 && apt-get install -y --no-install-recommends e2fsprogs findutils mount util-linux xfsprogs && rm -rf /var/lib/apt/lists/*
ENV UV_THREADPOOL_SIZE=16
CMD ["node", "packages/local-driver/src/main.ts"]
