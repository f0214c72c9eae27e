// Command cluster runs a real Kubernetes cluster with two nodes on this machine, for
// tests and for trying things out, with a PostgreSQL server and an S3 server beside
// it. It needs root, and the programs that `scripts/setup kubernetes` installs.
//
//	cluster run -- COMMAND     start a cluster, run the command with it, stop the cluster
//	cluster up                 start a cluster that keeps running
//	cluster down               stop it, and what is left of clusters that were killed
//	cluster simulate NODE      be a node of KUBECONFIG's cluster that runs no containers
//
// The command finds the cluster in these variables; `cluster up` prints them:
//
//	KUBECONFIG, INGOT_TEST_KUBECONFIG  credentials of an administrator
//	INGOT_TEST_STACK_IMAGE     the first --image, with its digest
//	INGOT_TEST_SERVER_IMAGE    the second --image
//	INGOT_TEST_NETWORK         addresses of this machine that Pods reach
//	INGOT_TEST_POSTGRES_URL    the PostgreSQL server, as superuser, for programs here
//	INGOT_TEST_POSTGRES_POD_URL  the same server, for Pods
//	INGOT_TEST_S3_URL          a bucket of the S3 server, as --blob-url takes it
//	INGOT_TEST_S3_CA           file with the certificate authority of the S3 server
//	AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY  its keys
//
// A node is a containerd and a kubelet with their own bridge, address, cgroup and
// directory. The API server listens on the cluster IP of the Service
// "kubernetes", so that Pods reach it without kube-proxy; no other Service has a
// working cluster IP. The nodes' network does not enforce NetworkPolicies and has
// no way out of this machine.
//
// With --nodes 0 there is an API server, and neither nodes nor controllers: tests of scale
// simulate nodes, whose Pods are entries in a table with an agent each.
//
// Everything is in one directory and is removed at the end: processes, mounts,
// bridges, cgroups and the kernel settings that a kubelet changes.
package main
