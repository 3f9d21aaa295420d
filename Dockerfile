# The `redrive` command with its drivers: docker build -t redrive . && docker run --rm redrive --help
#
# A tag can be moved to another image, a digest cannot. To pin the images by digest, ask for it and add it to the tags below:
#   docker buildx imagetools inspect node:22.23.3-bookworm --format '{{.Manifest.Digest}}'
#   FROM node:22.23.3-bookworm@sha256:… AS build
FROM node:22.23.3-bookworm AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
RUN npm install --no-save --ignore-scripts && npm run build && npm pack --ignore-scripts --pack-destination /tmp

FROM node:22.23.3-bookworm AS install
WORKDIR /app
COPY --from=build /tmp/redrive-*.tgz /tmp/
# The drivers are the versions in package-lock.json, with which the tests run.
RUN npm init --yes > /dev/null \
 && npm install --save-exact /tmp/redrive-*.tgz better-sqlite3@12.11.1 pg@8.23.1 amqplib@2.3.1 mongodb@7.8.0 \
      prom-client@15.1.3 @nats-io/transport-node@3.4.0 @nats-io/jetstream@3.4.0 @nats-io/kv@3.4.0

FROM node:22.23.3-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=install --chown=node:node /app /app
# The module with your tasks is mounted at /app/work, so that it finds the packages above.
USER node
ENTRYPOINT ["/app/node_modules/.bin/redrive"]
CMD ["--help"]
