// Package agenttest is an engine for tests that runs every instance as a separate agent:
// ingot-init --agent on an address of 127.0.0.0/8, as a Pod has its address. So the engine
// suite runs over the protocol of agents without a cluster.
//
// Instances have no namespaces: they share the machine's ports and files.
//
// Imports: base/background, base/keyed, platform/engine, platform/engine/agent,
// platform/engine/local, platform/instance/agentproto,
// platform/instance/initproto.
package agenttest
