"""What a request means, said once more: by code that shares nothing with the edit that carries it out."""
