// Package buildpacks contains the buildpacks bundled with Ingot: shell scripts with
// the interface of Cloud Foundry's buildpacks (bin/detect, bin/supply,
// bin/finalize) that use the language runtimes installed on the machine, and say
// what is missing and how to install it.
//
//	packs/NAME/bin/…         one folder each
//	packs/NAME/manifest.yml  language, version; needs_sidecar_memory (see staging)
//	packs/common/            what they share; part of each as lib/
//
// A droplet may run in another directory than it was built in: start commands and
// profile scripts use $HOME and $DEPS_DIR, never an absolute path.
//
// Imports: the standard library only.
package buildpacks
