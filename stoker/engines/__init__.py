"""The engines Stoker knows, each as data in a module of its own."""
