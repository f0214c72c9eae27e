package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

var (
	_ engine.Enforcer = (*Engine)(nil)

	policyResource = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
)

const (
	labelApp   = "ingot.dev/app"
	labelSpace = "ingot.dev/space"
	// annotationRules is a hash of a NetworkPolicy's spec, to see whether it changed.
	annotationRules = "ingot.dev/rules"
)

// Enforce implements engine.Enforcer with NetworkPolicies, which the cluster's network
// plugin has to enforce: one for each security group and lifecycle, and two for each pair of
// apps. Rules for ICMP are left out, because there are none for it in Kubernetes.
func (e *Engine) Enforce(ctx context.Context, r engine.Rules) error {
	wanted := e.networkPolicies(r)
	client := e.client.Resource(policyResource).Namespace(e.options.Namespace)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: e.pods.selector})
	if err != nil {
		return fmt.Errorf("list NetworkPolicies: %w", err)
	}
	var failed []error
	for _, o := range list.Items {
		name := o.GetName()
		spec, ok := wanted[name]
		delete(wanted, name)
		switch {
		case !ok:
			err = client.Delete(ctx, name, metav1.DeleteOptions{})
		case o.GetAnnotations()[annotationRules] != hashOf(spec):
			// plain values
			patch, _ := json.Marshal(object{"metadata": object{"annotations": object{annotationRules: hashOf(spec)}},
				"spec": spec})
			_, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		default:
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("NetworkPolicy %s: %w", name, err))
		}
	}
	for name, spec := range wanted {
		o := object{
			"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
			"metadata": object{
				"name": name, "namespace": e.options.Namespace, "labels": object{labelInstall: e.install},
				"annotations":     object{annotationRules: hashOf(spec)},
				"ownerReferences": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": ownerName, "uid": e.ownerUID()}},
			},
			"spec": spec,
		}
		if _, err := client.Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			failed = append(failed, fmt.Errorf("NetworkPolicy %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

func hashOf(spec object) string {
	text, _ := json.Marshal(spec) // plain values, with sorted keys
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// networkPolicies returns the specs of all NetworkPolicies by name. They add up, so that
// each may be about one group.
func (e *Engine) networkPolicies(r engine.Rules) map[string]object {
	out := map[string]object{}
	for guid, g := range r.Groups {
		egress := egressOf(g.Rules)
		if len(egress) == 0 || !dnsName().MatchString(guid) {
			continue
		}
		for _, staging := range []bool{false, true} {
			kinds, name := []any{kindApp, kindTask}, "running-"+guid
			if staging {
				kinds, name = []any{kindBuild}, "staging-"+guid
			}
			pods := object{"matchLabels": object{labelInstall: e.install},
				"matchExpressions": []any{object{"key": labelKind, "operator": "In", "values": kinds}}}
			if !slices.Contains(r.Zones[engine.Zone{Staging: staging}], guid) {
				spaces := spacesOf(r, guid, staging)
				if len(spaces) == 0 {
					continue
				}
				pods["matchExpressions"] = append(pods["matchExpressions"].([]any), object{"key": labelSpace, "operator": "In",
					"values": spaces})
			}
			out[name] = object{"podSelector": pods, "policyTypes": []any{"Egress"}, "egress": egress}
		}
	}
	e.between(r.Policies, out)
	return out
}

// spacesOf returns the spaces that a group is bound to.
func spacesOf(r engine.Rules, guid string, staging bool) (spaces []any) {
	var all []string
	for zone, groups := range r.Zones {
		if zone.Staging == staging && zone.Space != "" && slices.Contains(groups, guid) {
			all = append(all, zone.Space)
		}
	}
	slices.Sort(all)
	for _, s := range all {
		spaces = append(spaces, s)
	}
	return spaces
}

// between adds what lets apps connect to each other: one NetworkPolicy for the source, and
// one for the destination.
func (e *Engine) between(policies []platform.NetworkPolicy, out map[string]object) {
	type pair struct{ from, to string }
	ports := map[pair][]any{}
	for _, p := range policies {
		key := pair{p.SourceApp, p.DestApp}
		ports[key] = append(ports[key], portsOf(p.Protocol, []platform.PortRange{{First: p.FirstPort, Last: p.LastPort}})...)
	}
	app := func(guid string) object {
		return object{"matchLabels": object{labelInstall: e.install, labelApp: guid}}
	}
	for p, list := range ports {
		if !dnsName().MatchString(p.from) || !dnsName().MatchString(p.to) {
			continue
		}
		name := p.from + "-" + p.to
		out["from-"+name] = object{"podSelector": app(p.from), "policyTypes": []any{"Egress"},
			"egress": []any{object{"to": []any{object{"podSelector": app(p.to)}}, "ports": list}}}
		out["to-"+name] = object{"podSelector": app(p.to), "policyTypes": []any{"Ingress"},
			"ingress": []any{object{"from": []any{object{"podSelector": app(p.from)}}, "ports": list}}}
	}
}

// egressOf returns the rules of a group, without those for ICMP.
func egressOf(rules []platform.SecurityRule) (list []any) {
	for _, r := range rules {
		if r.Protocol == platform.ProtocolICMP {
			continue
		}
		var to []any
		for _, addresses := range r.Ranges() {
			for _, p := range prefixes(addresses) {
				to = append(to, object{"ipBlock": object{"cidr": p.String()}})
			}
		}
		rule := object{"to": to}
		if r.Protocol != platform.ProtocolAll {
			rule["ports"] = portsOf(r.Protocol, r.PortRanges())
		}
		list = append(list, rule)
	}
	return list
}

func portsOf(protocol string, ranges []platform.PortRange) (list []any) {
	for _, p := range ranges {
		port := object{"protocol": strings.ToUpper(protocol), "port": int64(p.First)}
		if p.Last > p.First {
			port["endPort"] = int64(p.Last)
		}
		list = append(list, port)
	}
	return list
}

// prefixes returns the networks that a range of addresses consists of.
func prefixes(r platform.AddressRange) (list []netip.Prefix) {
	number := func(a netip.Addr) uint64 {
		b := a.As4()
		return uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
	}
	for first, last := number(r.First), number(r.Last); first <= last; {
		// The largest network that begins here and does not reach too far.
		size := min(bits.TrailingZeros64(first|1<<32), bits.Len64(last-first+1)-1)
		address := netip.AddrFrom4([4]byte{byte(first >> 24), byte(first >> 16), byte(first >> 8), byte(first)})
		list = append(list, netip.PrefixFrom(address, 32-size))
		first += 1 << size
	}
	return list
}
