package platform

import (
	"strings"
	"testing"

	"ingot/internal/base/fault"
)

func TestCheckServiceInstance(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		what   string
		change func(*ServiceInstance)
		want   string
	}{
		{"as it is", func(*ServiceInstance) {}, ""},
		{"blank", func(i *ServiceInstance) { i.Name = " " }, "Name can't be blank"},
		{"long", func(i *ServiceInstance) { i.Name = strings.Repeat("é", 256) }, "Name is too long"},
		{"longest", func(i *ServiceInstance) { i.Name = strings.Repeat("é", 255) }, ""},
		{"control", func(i *ServiceInstance) { i.Name = "a\nb" }, "control characters"},
		{"most tags", func(i *ServiceInstance) { i.Tags = []string{strings.Repeat("é", 2000), strings.Repeat("t", 48)} }, ""},
		{"tags", func(i *ServiceInstance) { i.Tags = []string{strings.Repeat("t", 2000), strings.Repeat("t", 49)} },
			"Tags combined length"},
		{"drain", func(i *ServiceInstance) { i.SyslogDrainURL = "syslog-tls://example.org:6514" }, ""},
		{"drain by http", func(i *ServiceInstance) { i.SyslogDrainURL = "http://example.org" },
			"Syslog drain url must be an address that begins with syslog:// or syslog-tls://"},
		{"drain without host", func(i *ServiceInstance) { i.SyslogDrainURL = "https://" }, "Syslog drain url"},
		{"route service", func(i *ServiceInstance) { i.RouteServiceURL = "https://example.org/rs" }, ""},
		{"route service by http", func(i *ServiceInstance) { i.RouteServiceURL = "http://example.org" },
			"Route service url must be an address that begins with https://"},
		{"route service unreadable", func(i *ServiceInstance) { i.RouteServiceURL = "://" }, "Route service url"},
		{"managed", func(i *ServiceInstance) { i.Type, i.RouteServiceURL = ServiceManaged, "http://broker.example" }, ""},
	} {
		i := &ServiceInstance{Type: ServiceUserProvided, Name: "db"}
		x.change(i)
		refuses(t, x.what, CheckServiceInstance(i), x.want)
	}
}

func TestCheckServiceBroker(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		what   string
		change func(*ServiceBroker)
		want   string
	}{
		{"as it is", func(*ServiceBroker) {}, ""},
		{"path", func(b *ServiceBroker) { b.URL = "http://broker.example/base" }, ""},
		{"blank", func(b *ServiceBroker) { b.Name = "\t" }, "Name can't be blank"},
		{"long", func(b *ServiceBroker) { b.Name = strings.Repeat("b", 256) }, "Name is too long"},
		{"scheme", func(b *ServiceBroker) { b.URL = "ftp://broker.example" }, "is not a valid URL"},
		{"no host", func(b *ServiceBroker) { b.URL = "broker.example" }, "'broker.example' is not a valid URL"},
		{"query", func(b *ServiceBroker) { b.URL += "?" }, "query or a fragment"},
		{"fragment", func(b *ServiceBroker) { b.URL += "#" }, "query or a fragment"},
		{"credentials", func(b *ServiceBroker) { b.URL = "https://u:p@broker.example" }, "must not contain authentication"},
		{"no user", func(b *ServiceBroker) { b.Username = "" }, "needs a username and a password"},
		{"no password", func(b *ServiceBroker) { b.Password = "" }, "needs a username and a password"},
	} {
		b := &ServiceBroker{Name: "broker", URL: "https://broker.example", Username: "u", Password: "p"}
		x.change(b)
		refuses(t, x.what, CheckServiceBroker(b), x.want)
	}
}

func TestCheckBinding(t *testing.T) {
	t.Parallel()
	app, key, route := ServiceBinding{Type: BindingApp}, ServiceBinding{Type: BindingKey, Name: "k"},
		ServiceBinding{Type: BindingRoute}
	for _, x := range []struct {
		what    string
		binding ServiceBinding
		change  func(*ServiceBinding, *ServiceInstance)
		want    string
	}{
		{"app", app, nil, ""},
		{"app with a name", app, func(b *ServiceBinding, _ *ServiceInstance) { b.Name = "primary" }, ""},
		{"app with a long name", app, func(b *ServiceBinding, _ *ServiceInstance) { b.Name = strings.Repeat("n", 256) },
			"Name is too long"},
		{"app with a bad name", app, func(b *ServiceBinding, _ *ServiceInstance) { b.Name = "a\x7f" }, "control characters"},
		{"app in another space", app, func(b *ServiceBinding, _ *ServiceInstance) { b.SpaceGUID = "other" },
			"are in different spaces"},
		{"app in a space it is shared with", app,
			func(b *ServiceBinding, i *ServiceInstance) { b.SpaceGUID, i.SharedSpaces = "other", []string{"other"} }, ""},
		{"key", key, nil, ""},
		{"key without a name", key, func(b *ServiceBinding, _ *ServiceInstance) { b.Name = "" }, "Name can't be blank"},
		{"key of a user-provided one", key, func(_ *ServiceBinding, i *ServiceInstance) { i.Type = ServiceUserProvided },
			"type 'key' are not supported"},
		{"route", route, nil, ""},
		{"route in another space", route, func(b *ServiceBinding, i *ServiceInstance) {
			b.SpaceGUID, i.SharedSpaces = "other",
				[]string{"other"}
		}, "the route are in different spaces"},
		{"route of a user-provided one", route, func(_ *ServiceBinding, i *ServiceInstance) {
			i.Type, i.RouteServiceURL = ServiceUserProvided, "https://rs"
		}, ""},
		{"route of one without route service", route,
			func(_ *ServiceBinding, i *ServiceInstance) { i.Type = ServiceUserProvided }, "does not support route binding"},
		{"create failed", app, func(_ *ServiceBinding, i *ServiceInstance) { i.Last.State = OperationFailed },
			"was not created: its last operation is 'create failed'"},
		{"delete failed", app, func(_ *ServiceBinding, i *ServiceInstance) {
			i.Last = LastOperation{Type: OperationDelete, State: OperationFailed}
		}, ""},
	} {
		i := &ServiceInstance{Type: ServiceManaged, Name: "db", SpaceGUID: "space", Last: LastOperation{Type: OperationCreate,
			State: OperationSucceeded}}
		b := x.binding
		b.SpaceGUID = "space"
		if x.change != nil {
			x.change(&b, i)
		}
		refuses(t, x.what, CheckBinding(&b, i), x.want)
	}
	busy := &ServiceInstance{Name: "db", Last: LastOperation{Type: OperationUpdate, State: OperationInProgress}}
	if err := CheckBinding(&app, busy); !fault.Is(err, fault.InstanceBusy) {
		t.Errorf("during an update: got %v, want fault.InstanceBusy", err)
	}
}

func TestCheckBindable(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		binding  string
		bindable bool
		requires []string
		want     string
	}{
		{BindingApp, true, nil, ""}, {BindingKey, true, nil, ""},
		{BindingApp, false, nil, "does not allow bindings"}, {BindingKey, false, []string{"route_forwarding"},
			"does not allow bindings"},
		{BindingRoute, false, []string{"route_forwarding"}, ""}, {BindingRoute, true, []string{"syslog_drain"},
			"does not support route binding"},
	} {
		err := CheckBindable(x.binding, &ServicePlan{Bindable: x.bindable}, &ServiceOffering{Requires: x.requires})
		refuses(t, x.binding, err, x.want)
	}
}
