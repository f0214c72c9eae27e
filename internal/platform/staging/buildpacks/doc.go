// Package buildpacks holds the buildpacks that come with Ingot: trees of shell
// scripts, in the contract of Cloud Foundry's (bin/detect, bin/supply,
// bin/finalize), that bring no language with them but use what the machine has,
// and say what is missing and how to get it.
//
//	packs/NAME/bin/…         one folder each
//	packs/NAME/manifest.yml  language, version; needs_sidecar_memory (see staging)
//	packs/common/            what they share; part of each as lib/
//
// A droplet may run somewhere else than where it was built: start commands and
// profile scripts say $HOME and $DEPS_DIR and never name a directory.
//
// Imports: the standard library only.
package buildpacks
