package sshd_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/edge/sshd"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/controller"
)

var (
	errFromInstance = errors.New("dialed inside the instance")
	errFromBroker   = errors.New("dialed by the broker")
)

// labeledEngine has one instance, of one app.
type labeledEngine struct {
	engine.Engine
	app string
}

func (e labeledEngine) Get(context.Context, string) (engine.Instance, error) {
	return engine.Instance{Labels: map[string]string{controller.LabelApp: e.app}}, nil
}

func (labeledEngine) Dial(context.Context, string, string, string) (net.Conn, error) {
	return nil, errFromInstance
}

// portBroker has an endpoint for each service instance it knows.
type portBroker map[string]netip.AddrPort

func (b portBroker) EndpointsOf(_ context.Context, instances ...string) (list []netip.AddrPort, _ error) {
	for guid, at := range b {
		if slices.Contains(instances, guid) {
			list = append(list, at)
		}
	}
	return list, nil
}

func (portBroker) Dial(context.Context, string, netip.AddrPort) (net.Conn, error) {
	return nil, errFromBroker
}

// Only the service instances of the app's space are dialed by the broker.
func TestServiceTunnels(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	err := f.Store.Update(t.Context(), func(tx platform.Tx) error {
		other := &platform.Space{Name: "other"}
		space, err := tx.Spaces().Get(f.app.SpaceGUID)
		if err != nil {
			return err
		}
		other.OrgGUID = space.OrgGUID
		if err := tx.Spaces().Insert(other); err != nil {
			return err
		}
		insert := func(guid, space string) error {
			return tx.ServiceInstances().Insert(&platform.ServiceInstance{Resource: platform.Resource{GUID: guid}, Name: guid,
				SpaceGUID: space, Type: platform.ServiceManaged})
		}
		return errors.Join(insert("ours", f.app.SpaceGUID), insert("theirs", other.GUID))
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sshd.Broker = portBroker{"ours": netip.MustParseAddrPort("127.0.0.1:1"),
		"theirs": netip.MustParseAddrPort("127.0.0.1:2")}
	for _, c := range []struct {
		app, address string
		broker       sshd.Broker
		want         error
	}{
		{f.app.GUID, "127.0.0.1:1", running, errFromBroker},
		{f.app.GUID, "127.0.0.1:2", running, errFromInstance},
		{f.app.GUID, "localhost:1", running, errFromInstance},
		{f.app.GUID, "127.0.0.1:1", nil, errFromInstance},
		{"deleted", "127.0.0.1:1", running, errFromInstance},
	} {
		tunnels := sshd.ServiceTunnels{Engine: labeledEngine{app: c.app}, Store: f.Store,
			Broker: func() sshd.Broker { return c.broker }}
		if _, err := tunnels.Dial(t.Context(), "instance", "tcp", c.address); !errors.Is(err, c.want) {
			t.Errorf("app %s, %s: got %v, want %v", c.app, c.address, err, c.want)
		}
	}
}
