package platform

import "time"

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
