package platform

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ingot/internal/base/fault"
)

// BrokerState is the state of the synchronization with a broker's catalog.
type BrokerState string

// The states of a broker.
const (
	BrokerSynchronizing BrokerState = "synchronization in progress"
	BrokerFailed        BrokerState = "synchronization failed"
	BrokerAvailable     BrokerState = "available"
	BrokerDeleting      BrokerState = "delete in progress"
)

// ServiceBroker offers services by the Open Service Broker API. Without a space
// it is for the whole platform.
type ServiceBroker struct {
	Resource
	Metadata
	Name      string
	URL       string
	Username  string
	Password  string // encrypted
	SpaceGUID string
	State     BrokerState
	// DashboardClients are the OAuth clients that were created for it: their ids,
	// and a fingerprint of what they are made of. They are encrypted.
	DashboardClients map[string]string
}

// ServiceOffering is a kind of service in a broker's catalog.
type ServiceOffering struct {
	Resource
	Metadata
	Name        string
	Description string
	BrokerGUID  string
	CatalogID   string // the broker's id
	// Available is false when the broker no longer offers it.
	Available            bool
	Bindable             bool
	PlanUpdateable       bool
	InstancesRetrievable bool
	BindingsRetrievable  bool
	AllowContextUpdates  bool
	Shareable            bool
	Tags                 []string
	Requires             []string
	DocumentationURL     string
	// CatalogMetadata is the description that the broker provides for people.
	CatalogMetadata map[string]any
}

// Visibility is who can use a plan.
type Visibility string

// The visibilities of a plan.
const (
	VisiblePublic Visibility = "public"
	VisibleAdmin  Visibility = "admin"
	VisibleOrgs   Visibility = "organization"
	VisibleSpace  Visibility = "space"
)

// ServicePlan is a variant of an offering, such as its size.
type ServicePlan struct {
	Resource
	Metadata
	Name           string
	Description    string
	OfferingGUID   string
	CatalogID      string
	Available      bool
	Free           bool
	Bindable       bool
	PlanUpdateable bool
	// BindingRotatable means that the broker makes successors of bindings.
	BindingRotatable bool
	Visibility       Visibility
	// Orgs are those that see it when Visibility is VisibleOrgs.
	Orgs                   []string
	MaintenanceVersion     string
	MaintenanceDescription string
	MaxPollingSeconds      int // 0 means the platform's
	CatalogMetadata        map[string]any
	// Schemas are of parameters: service_instance{create,update} and
	// service_binding{create}, each {parameters}.
	Schemas map[string]any
}

// OperationState is the state of the last operation on a service instance or
// binding.
//
//	initial ──▶ in progress ──▶ succeeded
//	                 └────────▶ failed
type OperationState string

// The states of an operation.
const (
	OperationInitial    OperationState = "initial"
	OperationInProgress OperationState = "in progress"
	OperationSucceeded  OperationState = "succeeded"
	OperationFailed     OperationState = "failed"
)

// The kinds of operations.
const (
	OperationCreate = "create"
	OperationUpdate = "update"
	OperationDelete = "delete"
)

// LastOperation is the last operation, finished or in progress.
type LastOperation struct {
	Type        string
	State       OperationState
	Description string
	Created     time.Time
	Updated     time.Time
}

// InProgress reports whether the operation is not finished.
func (o LastOperation) InProgress() bool {
	return o.State == OperationInProgress || o.State == OperationInitial
}

// Exists reports whether the instance or binding was created and not deleted, so
// that its credentials can be used.
func (o LastOperation) Exists() bool {
	switch o.Type {
	case OperationCreate:
		return o.State == OperationSucceeded
	case OperationDelete:
		return o.State == OperationFailed
	}
	return true
}

// The types of service instances.
const (
	ServiceManaged      = "managed"
	ServiceUserProvided = "user-provided"
)

// ServiceInstance is a service in a space: created by a broker, or described by a
// user who has it elsewhere.
type ServiceInstance struct {
	Resource
	Metadata
	Type               string
	Name               string
	SpaceGUID          string
	PlanGUID           string // of managed ones
	Tags               []string
	DashboardURL       string
	SyslogDrainURL     string // of user-provided ones
	RouteServiceURL    string
	MaintenanceVersion string
	// Credentials are those of user-provided ones; they are encrypted.
	Credentials map[string]any
	// BrokerMetadata is the metadata that the broker returned for it.
	BrokerMetadata map[string]any
	SharedSpaces   []string
	Last           LastOperation
}

// The types of service bindings.
const (
	BindingApp   = "app"
	BindingKey   = "key"
	BindingRoute = "route"
)

// ServiceBinding gives an app, a service key or a route access to a service
// instance.
type ServiceBinding struct {
	Resource
	Metadata
	Type         string
	Name         string
	InstanceGUID string
	AppGUID      string // of app bindings
	RouteGUID    string // of route bindings
	// SpaceGUID is the space of the app or the route; for keys, of the instance.
	SpaceGUID string
	// BrokerID is the broker's id of the credentials, if they replaced others; see AtBroker.
	BrokerID        string
	SyslogDrainURL  string
	RouteServiceURL string
	VolumeMounts    []map[string]any
	// Credentials are encrypted.
	Credentials map[string]any
	Last        LastOperation
}

// maxTags is how many characters the tags of an instance may have together.
const maxTags = 2048

// CheckServiceInstance returns an error if the name, the tags or, of a
// user-provided instance, the addresses are invalid.
func CheckServiceInstance(i *ServiceInstance) error {
	var problems []string
	if problem := nameProblem(i.Name, strings.TrimSpace(i.Name) == ""); problem != "" {
		problems = append(problems, problem)
	}
	n := 0
	for _, t := range i.Tags {
		n += utf8.RuneCountInString(t)
	}
	if n > maxTags {
		problems = append(problems, "Tags combined length must be at most 2048 characters")
	}
	if len(problems) > 0 || i.Type != ServiceUserProvided {
		return fault.Invalid(problems...)
	}
	if err := checkServiceURL("Syslog drain url", i.SyslogDrainURL, "syslog", "syslog-tls", "https",
		"https-batch"); err != nil {
		return err
	}
	return checkServiceURL("Route service url", i.RouteServiceURL, "https")
}

// checkServiceURL returns an error if an address of a user-provided service is
// invalid. An empty one is valid.
func checkServiceURL(name, text string, schemes ...string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		return fault.Invalid(fmt.Sprintf("%s must be an address that begins with %s", name,
			strings.Join(schemes, ":// or ")+"://"))
	}
	return nil
}

// CheckServiceBroker returns an error if the name, the URL or the credentials of a
// broker are invalid.
func CheckServiceBroker(b *ServiceBroker) error {
	var problems []string
	if strings.TrimSpace(b.Name) == "" {
		problems = append(problems, "Name can't be blank")
	} else if utf8.RuneCountInString(b.Name) > maxName {
		problems = append(problems, "Name is too long (maximum is 255 characters)")
	}
	u, err := url.Parse(b.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		problems = append(problems, fmt.Sprintf("'%s' is not a valid URL: it must begin with http:// or https://",
			strings.ToValidUTF8(b.URL, "?")))
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(b.URL, "#"):
		problems = append(problems,
			"URL must not contain a query or a fragment: paths of the broker API are added to its end")
	case u.User != nil:
		problems = append(problems, "URL must not contain authentication: give user name and password by themselves")
	}
	if b.Username == "" || b.Password == "" {
		problems = append(problems, "Authentication needs a username and a password")
	}
	return fault.Invalid(problems...)
}

// InstanceBusy is the error for a request that has to wait for the operation in
// progress on a service instance.
func InstanceBusy(i *ServiceInstance) error {
	return fault.New(fault.InstanceBusy, "An operation for service instance %s is in progress.", i.Name)
}

// CheckBinding returns an error if a service instance cannot be bound this way,
// whatever other bindings there are. The space of b is that of its app or route.
func CheckBinding(b *ServiceBinding, i *ServiceInstance) error {
	provided := i.Type == ServiceUserProvided
	switch {
	case b.Type == BindingKey && provided:
		return fault.New(fault.Unprocessable,
			"Service credential bindings of type 'key' are not supported for user-provided service instances.")
	case i.Last.InProgress():
		return InstanceBusy(i)
	case !i.Last.Exists():
		return fault.New(fault.Unprocessable, "The service instance '%s' was not created: its last operation is '%s %s'.",
			i.Name, i.Last.Type, i.Last.State)
	}
	// App and route bindings need no name.
	if problem := nameProblem(b.Name, b.Name == "" && b.Type == BindingKey); problem != "" {
		return fault.Invalid(problem)
	}
	switch {
	case b.Type == BindingApp && b.SpaceGUID != i.SpaceGUID && !slices.Contains(i.SharedSpaces, b.SpaceGUID):
		return fault.New(fault.Unprocessable, "The service instance and the app are in different spaces")
	case b.Type == BindingRoute && b.SpaceGUID != i.SpaceGUID:
		return fault.New(fault.Unprocessable, "The service instance and the route are in different spaces.")
	case b.Type == BindingRoute && provided && i.RouteServiceURL == "":
		return fault.New(fault.Unprocessable, "This service instance does not support route binding.")
	}
	return nil
}

// CheckBindable returns an error if instances of a plan cannot have a type of
// binding.
func CheckBindable(bindingType string, p *ServicePlan, o *ServiceOffering) error {
	switch {
	case bindingType == BindingRoute && !slices.Contains(o.Requires, "route_forwarding"):
		return fault.New(fault.Unprocessable, "This service instance does not support route binding.")
	case bindingType != BindingRoute && !p.Bindable:
		return fault.New(fault.Unprocessable, "Service plan does not allow bindings.")
	}
	return nil
}
