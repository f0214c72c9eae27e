// Package agentkeys keeps the keys of the agents of an installation: the authority whose
// certificates they accept, and the key that instances are derived from. The first server creates
// them; a rotation adds new ones, and the old ones are deleted when no instance has them any more.
//
// It must not know how secrets are stored.
//
// Imports: platform, platform/engine/agent, platform/engine/kubernetes.
package agentkeys
