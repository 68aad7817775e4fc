"""Global and local attention with input feeding: Luong et al. 2015."""
