package config_test

import (
	"fmt"
	"os"

	"ingot/internal/cli/config"
)

// A context that does not exist is empty.
func ExampleStore_Load() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store := config.Open(func(name string) string { return map[string]string{"INGOT_HOME": dir}[name] })
	c, err := store.Load("prod")
	if err != nil {
		panic(err)
	}
	c.API = "https://api.example.com"
	if err := c.Save(); err != nil {
		panic(err)
	}
	again, err := store.Load("") // the first context is the current one
	fmt.Println(again.Name(), again.API, err)
	// Output: prod https://api.example.com <nil>
}
