/** Server reflection (grpc.reflection.v1 and v1alpha): the services of the admin port and their messages. */
import { toBinary, type DescFile } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import type { Server } from '@grpc/grpc-js';
import { ReflectionService } from '@grpc/reflection';
import { envoyRegistry } from '../../../protos/envoy-registry.js';

/** The form in which `ReflectionService` takes descriptors. */
type Descriptors = ConstructorParameters<typeof ReflectionService>[0];

/** @param services their full names. Throws if the descriptor set lacks one. */
export function addReflection(server: Server, services: readonly string[]): void {
  const files = new Set<DescFile>();
  for (const name of services) {
    const service = envoyRegistry().getService(name);
    if (service === undefined) throw new Error(`the descriptor set lacks ${name}`);
    collect(service.file, files);
  }
  const fileDescriptorProtos = [...files].map(({ proto }) =>
    Buffer.from(toBinary(FileDescriptorProtoSchema, proto)),
  );
  const descriptors: Descriptors = {
    all: { format: 'Protocol Buffer 3 DescriptorProto', type: {}, fileDescriptorProtos },
  };
  new ReflectionService(descriptors, { services: [...services] }).addToServer(server);
}

/** A file and all that it imports. */
function collect(file: DescFile, files: Set<DescFile>): void {
  if (files.has(file)) return;
  files.add(file);
  for (const imported of file.dependencies) collect(imported, files);
}
