// Command stack builds the container images of Ingot, without Docker:
//
//	stack --image stack     the root file system of app instances, builds and tasks
//	stack --image small     the same without the runtimes of the buildpacks, for tests
//	stack --image server    ingot itself
//
// Every image has a layer with Debian 12, made by mmdebstrap, and a layer with
// Ingot's programs in /ingot. The first changes with Debian's packages and is cached;
// an upgrade of Ingot replaces only the second.
//
// With --arch amd64,arm64 the result is an index with an image for each.
//
// The same programs and packages result in the same digest: owners, times, order and
// compression do not depend on the machine. SOURCE_DATE_EPOCH sets the times
// (default: 0).
//
// The image is written to a file that nodes without a registry import with
// `ctr --namespace k8s.io images import FILE`, or pushed to a registry with the
// credentials of `docker login`. The output is the reference with the digest.
package main
