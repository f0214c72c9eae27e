// Command netpol enforces the NetworkPolicies of a cluster on one node, by the controller of
// kube-router: iptables and ipset in the network namespace that it runs in. The test cluster
// has it, because its network plugin enforces none.
//
//	netpol --kubeconfig FILE --node NAME
//
// It needs the programs iptables and ipset, and ends with SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cloudnativelabs/kube-router/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "`file` with the credentials of the cluster")
	node := flag.String("node", "", "`name` of the node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig, *node); err != nil {
		fmt.Fprintln(os.Stderr, "netpol:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, node string) error {
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	all := informers.NewSharedInformerFactory(client, 0)
	pods, spaces := all.Core().V1().Pods().Informer(), all.Core().V1().Namespaces().Informer()
	policies := all.Networking().V1().NetworkPolicies().Informer()
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())

	config := options.NewKubeRouterConfig()
	config.HostnameOverride, config.IPTablesSyncPeriod = node, time.Minute
	var ipsets sync.Mutex
	npc, err := netpol.NewNetworkPolicyController(client, config, pods, policies, spaces, &ipsets)
	if err != nil {
		return err
	}
	for _, add := range []func() error{
		func() error { _, err := pods.AddEventHandler(npc.PodEventHandler); return err },
		func() error { _, err := spaces.AddEventHandler(npc.NamespaceEventHandler); return err },
		func() error { _, err := policies.AddEventHandler(npc.NetworkPolicyEventHandler); return err },
	} {
		if err := add(); err != nil {
			return err
		}
	}
	// The controller reports each round, and is not to wait for that.
	beats := make(chan *healthcheck.ControllerHeartbeat, 10)
	go func() {
		for range beats {
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	npc.Run(beats, ctx.Done(), &running)
	running.Wait()
	return nil
}
