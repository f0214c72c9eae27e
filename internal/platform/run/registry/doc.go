// Package registry reads container images from registries (Docker Hub, private
// ones) with google/go-containerregistry.
//
//   - Names are resolved to digests, and everything is verified by its digest while
//     it is read.
//   - Credentials are sent to the registry of the image, and to the token server
//     that it names; never to a server that it redirects to.
//   - A user chooses the address, so connections pass safedial. HTTP without TLS is
//     for loopback addresses and the registries of Config.Insecure only.
//   - What the user reads about a failure says what to do, and contains nothing of
//     the response.
//
// It must not know apps, droplets or where layers are unpacked.
//
// Imports: base/fault, base/safedial, platform, platform/engine,
// github.com/google/go-containerregistry/pkg/authn,
// github.com/google/go-containerregistry/pkg/name,
// github.com/google/go-containerregistry/pkg/v1,
// github.com/google/go-containerregistry/pkg/v1/remote,
// github.com/google/go-containerregistry/pkg/v1/remote/transport.
package registry
